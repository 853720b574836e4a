package check

import (
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// kubelet is the kubelet of a host that could be read.
type kubelet struct {
	v1.Kubelet
	host v1.Host
	// node is its Node; the zero value when none matches.
	node v1.Node
}

func (k kubelet) String() string { return "kubelet@" + k.host.Name }

// kubelets are those whose files could be read, by host.
func (f facts) kubelets() []kubelet {
	nodes := make(map[string]v1.Node, len(f.Nodes))
	for _, n := range f.Nodes {
		nodes[n.Name] = n
	}
	var out []kubelet
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" {
			out = append(out, kubelet{Kubelet: *h.Kubelet, host: h, node: nodes[h.NodeName]})
		}
	}
	return out
}

// gates are the feature gates that the kubelet starts with: those of its flags over those of its configuration.
func (k kubelet) gates() map[string]bool {
	out := map[string]bool{}
	if k.Config != nil {
		maps.Copy(out, k.Config.FeatureGates)
	}
	maps.Copy(out, gatesIn(k.Flags["feature-gates"]))
	return out
}

// minor of the kubelet: its own answer, or the Node's.
func (k kubelet) minor() (int, bool) {
	return versionMinor(orElse(k.Version, k.node.KubeletVersion))
}

// source is the file that a flag comes from.
func (k kubelet) source(flag string) string { return orElse(k.Sources[flag], k.Source) }

// running are the values that the live process was given for a flag, in order; known is false when the process was not seen.
func (k kubelet) running(flag string) (values []string, known bool) {
	if k.Process == nil {
		return nil, false
	}
	args := k.Process.Args
	for i, a := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-") || strings.ReplaceAll(name, "_", "-") != flag:
		case hasValue:
			values = append(values, value)
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			values = append(values, args[i+1])
		default:
			values = append(values, "true")
		}
	}
	return values, true
}

// provider is the value of --cloud-provider that counts: the process's, else the files'.
func (k kubelet) provider() string {
	if values, known := k.running("cloud-provider"); known {
		if len(values) == 0 {
			return ""
		}
		return values[len(values)-1]
	}
	return k.Flags["cloud-provider"]
}

// inTree tells that the kubelet uses an in-tree provider.
func (k kubelet) inTree() bool { return k.provider() != "" && k.provider() != external }

// unseen are the nodes whose kubelet no host access reaches, sorted.
func (f facts) unseen() []string {
	seen := map[string]bool{}
	for _, k := range f.kubelets() {
		seen[k.host.NodeName] = true
	}
	var out []string
	for _, n := range f.Nodes {
		if !seen[n.Name] {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}
