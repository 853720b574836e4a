package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/pki"
)

// site is everything that is known about a lab before anything of it runs.
type site struct {
	root  string
	block *block
	pki   *pki.PKI
	hosts []*Host
	wires map[string]wire // by name
	kind  Kind
	// noCloudConfig is the option of this name.
	noCloudConfig bool
	shape         Shape
}

func (s *site) auditFile() string { return filepath.Join(s.root, "audit.jsonl") }

// url is the address of an edge, with its scheme.
func (s *site) url(scheme, edgeName string) string { return scheme + "://" + s.wires[edgeName].listen }

// login is where a kubeconfig leads and as whom.
type login struct {
	server string
	id     pki.Identity
}

// writeHost writes everything that kubeadm, and whoever prepared the machine for AWS, would have put on a host, except
// for the manifests.
func (s *site) writeHost(h *Host) error {
	kubeconfigs := map[string]login{
		"kubelet.conf": {s.url("https", EdgeName(h.Name, "kubelet", endLoadBalancer)), pki.Node(h.NodeName)},
	}
	if h.ControlPlane {
		own := func(component string) string { return s.url("https", EdgeName(h.Name, component, APIServer)) }
		kubeconfigs["controller-manager.conf"] = login{own(ControllerManager), pki.ControllerManager}
		kubeconfigs["scheduler.conf"] = login{own(Scheduler), pki.Scheduler}
		kubeconfigs["admin.conf"] = login{s.adminServer(), pki.Admin}
	}
	for name, k := range kubeconfigs {
		data, err := s.pki.Kubeconfig(k.server, k.id)
		if err != nil {
			return err
		}
		if err := pki.WriteSecret(h.Path("/etc/kubernetes/"+name), data); err != nil {
			return err
		}
	}
	if err := s.writeKubelet(h); err != nil {
		return err
	}
	if !h.ControlPlane {
		return s.pki.WriteNode(h.Path(pkiDir))
	}
	ws := make([]wire, 0, len(s.wires))
	for _, w := range s.wires {
		ws = append(ws, w)
	}
	err := s.pki.WriteControlPlane(
		h.Path(pkiDir),
		pki.APIServer{NodeName: h.NodeName, Addresses: servingAddresses(s.block, ws, h)},
	)
	if err != nil {
		return err
	}
	if s.noCloudConfig {
		return nil
	}
	endpoint := s.wires[EdgeName(h.Name, ControllerManager, endCloud)].listen
	return writePublic(h.Path(cloudConfig), s.kind.Config(h, endpoint))
}

// writeKubelet writes the flags with which kubeadm starts the kubelet.
func (s *site) writeKubelet(h *Host) error {
	more := ""
	if s.shape != StaticPods && h.ControlPlane { // else a manifest that is there shows it
		more = " --pod-manifest-path=" + manifestDir
	}
	kind := s.kind.Flags("kubelet")
	for _, name := range slices.Sorted(maps.Keys(kind)) {
		more += " --" + name + "=" + kind[name]
	}
	flags := fmt.Sprintf(
		"KUBELET_KUBEADM_ARGS=\"--cloud-provider=%s --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock "+
			"--hostname-override=%s --pod-infra-container-image=registry.k8s.io/pause:3.9%s\"\n",
		s.kind.Provider(),
		h.NodeName,
		more,
	)
	return writePublic(h.Path("/var/lib/kubelet/kubeadm-flags.env"), flags)
}

// adminServer is the URL of the load balancer: everybody's way to the API but the managers' and the kubelets'.
func (s *site) adminServer() string {
	return "https://" + s.block.endpoint(placeLoadBalancer, portAPIServer)
}

func (s *site) adminKubeconfig() string { return filepath.Join(s.root, "admin.conf") }

func (s *site) kubeconfigOf(user string) string { return filepath.Join(s.root, user+".conf") }

// Ids of the simulated account's network, as far as a cloud configuration names them.
const (
	vpcID        = "vpc-lab"
	routeTableID = "rtb-lab"
	subnetID     = "subnet-a" // in the first zone
)

// CloudConfig is the in-tree provider's configuration with an endpoint (http://host:port) for every service. With VPC,
// subnet and cluster given, the manager takes itself to run elsewhere and asks no metadata service.
func CloudConfig(endpoint string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "[Global]\nZone = %s\nVPC = %s\nSubnetID = %s\nRouteTableID = %s\nKubernetesClusterID = %s\n"+
		"DisableSecurityGroupIngress = false\n", zones[0], vpcID, subnetID, routeTableID, Name)
	for i, service := range []string{"ec2", "elasticloadbalancing"} { // the second covers both generations
		fmt.Fprintf(
			&out,
			"\n[ServiceOverride \"%d\"]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\nSigningName = %s\nSigningMethod = v4\n",
			i+1,
			service,
			Region,
			endpoint,
			Region,
			service,
		)
	}
	return out.String()
}

func writePublic(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating directory of %q: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // no secret
		return fmt.Errorf("writing %q: %w", file, err)
	}
	return nil
}
