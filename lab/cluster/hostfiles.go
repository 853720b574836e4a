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
	hosts []*Host // of the cluster
	// apart are machines of the cloud that are no hosts of the cluster: those that may join, and those that have left.
	apart []*Host
	wires map[string]wire // by name
	kind  Kind
	// noCloudConfig is the option of this name.
	noCloudConfig bool
	shape         Shape
}

// machines are all that the cloud has.
func (s *site) machines() []*Host { return slices.Concat(s.hosts, s.apart) }

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
	if err := writeKubelet(h, s.kubeletFlags(h)); err != nil {
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

// kubeletFlags are those with which kubeadm starts the kubelet.
func (s *site) kubeletFlags(h *Host) map[string]string {
	out := map[string]string{
		"cloud-provider":             s.kind.Provider(),
		"container-runtime-endpoint": "unix:///var/run/containerd/containerd.sock",
		"hostname-override":          h.NodeName,
		"pod-infra-container-image":  "registry.k8s.io/pause:3.9",
	}
	if s.shape != StaticPods && h.ControlPlane { // else a manifest that is there shows it
		out["pod-manifest-path"] = manifestDir
	}
	maps.Copy(out, s.kind.Flags("kubelet"))
	return out
}

// writeKubelet writes the kubelet's flags, as kubeadm does.
func writeKubelet(h *Host, flags map[string]string) error {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		words = append(words, "--"+name+"="+flags[name])
	}
	text := fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", strings.Join(words, " "))
	return writePublic(h.Path("/var/lib/kubelet/kubeadm-flags.env"), text)
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
