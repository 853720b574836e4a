package ccm

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// MissingProxies are the variables of the kube-controller-managers that the options do not give the
// cloud-controller-manager. A snapshot has no values.
func MissingProxies(d *draft.Draft) []string {
	given := map[string]bool{}
	for _, e := range d.Options.Env {
		name, _, _ := strings.Cut(e, "=")
		given[strings.ToUpper(name)] = true
	}
	var managers []*v1.Component
	for _, h := range d.Hosts {
		managers = append(managers, clusterview.FindComponent(h, component.KCM))
	}
	if m := clusterview.FindHosted(d.Snapshot, component.KCM); m != nil {
		managers = append(managers, m)
	}
	var out []string
	for _, name := range clusterview.ProxyVariables {
		for _, m := range managers {
			if flagvalue.HasVariable(m.EnvNames, name) && !given[name] {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// Environment are the variables of the manager on a host, and the files that they name.
func Environment(d *draft.Draft, host string) ([]controlplane.Env, []controlplane.HostPath) {
	var env []controlplane.Env
	var files []controlplane.HostPath
	for _, e := range d.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		value = strings.ReplaceAll(value, "{host}", host)
		env = append(env, controlplane.Env{Name: name, Value: value})
		if strings.HasPrefix(value, "/etc/") {
			files = append(files, controlplane.HostPath{Path: value, Type: "File"})
		}
	}
	return env, files
}

// envNodeName is also what cloud-node-manager is told its node by.
const envNodeName = "NODE_NAME"

// OwnFields are the variables by which our manager knows its node and its pod, and the fields of its pod that have the
// names. It deletes no node while the cloud does not know its own, and its kubelet testifies when its pod has ended.
var OwnFields = map[string]string{envNodeName: "spec.nodeName", "POD_NAME": "metadata.name"}

// ownVariablesOf are the names of OwnFields that the manager's pod gets. Other programs may take the variables for
// something else, and a variable of the options stays as it is.
func ownVariablesOf(d *draft.Draft) []string {
	if !d.Program.Ours {
		return nil
	}
	return slices.DeleteFunc(OwnVariables(), func(name string) bool {
		return slices.ContainsFunc(d.Options.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	})
}

// OwnVariables are the names of OwnFields in order.
func OwnVariables() []string { return slices.Sorted(maps.Keys(OwnFields)) }

// ownEnv is a variable of OwnFields as an object has it.
func ownEnv(name string) layout.Object {
	return layout.Object{
		"name":      name,
		"valueFrom": layout.Object{"fieldRef": layout.Object{"fieldPath": OwnFields[name]}},
	}
}

// localAPIEnv points the client of a pod at its own host's API server: kubeadm's serving certificate names the host's
// address.
func localAPIEnv(h v1.Host) []any {
	return []any{
		layout.Object{
			"name":      "KUBERNETES_SERVICE_HOST",
			"valueFrom": layout.Object{"fieldRef": layout.Object{"fieldPath": "status.hostIP"}},
		},
		layout.Object{"name": "KUBERNETES_SERVICE_PORT", "value": clusterview.APIPort(h)},
	}
}

// EndpointEnv points the client of a pod on any node at the control plane's common address, where the cluster has one.
// Else kube-proxy has to be there. The address stands in a ConfigMap, and the pod sends its token there. So it is used
// only where the API servers announce it themselves, or the cluster was reached by it.
func EndpointEnv(d *draft.Draft) []any {
	host, port := d.Snapshot.Kubeadm.Endpoint()
	if port == "" {
		port = component.PortKAS
	}
	// What is no number would be a part of the host in a URL: in 10.0.0.1:443@203.0.113.9 the first address is a user.
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || !isKnownServer(d.Snapshot, host) {
		return nil
	}
	return []any{
		layout.Object{"name": "KUBERNETES_SERVICE_HOST", "value": host},
		layout.Object{"name": "KUBERNETES_SERVICE_PORT", "value": port},
	}
}

// isKnownServer reports whether a host is one by which the cluster was reached, or which its API servers announce.
func isKnownServer(s *v1.Snapshot, host string) bool {
	at, err := url.Parse(s.Cluster.Server)
	return err == nil && host != "" && strings.EqualFold(at.Hostname(), host) || slices.Contains(s.APIServers, host)
}
