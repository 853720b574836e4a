package facts

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/shell"
)

// Kubelet is the kubelet of a host that could be read.
type Kubelet struct {
	v1.Kubelet
	Host v1.Host
	// Node is its Node; the zero value when none matches.
	Node v1.Node
}

// String returns the kubelet and its host, as kubelet@worker-1.
func (k Kubelet) String() string { return "kubelet@" + k.Host.Name }

// Kubelets are those whose files could be read, by host.
func (f Facts) Kubelets() []Kubelet {
	nodes := make(map[string]v1.Node, len(f.Nodes))
	for _, n := range f.Nodes {
		nodes[n.Name] = n
	}
	var out []Kubelet
	for _, h := range f.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" {
			out = append(out, Kubelet{Kubelet: *h.Kubelet, Host: h, Node: nodes[h.NodeName]})
		}
	}
	return out
}

// Gates are the feature gates that the kubelet starts with: those of its flags over those of its configuration.
func (k Kubelet) Gates() map[string]bool {
	out := map[string]bool{}
	if k.Config != nil {
		maps.Copy(out, k.Config.FeatureGates)
	}
	maps.Copy(out, gatesIn(k.Flags["feature-gates"]))
	return out
}

// Minor of the kubelet: its own answer, or the Node's.
func (k Kubelet) Minor() (int, bool) {
	return VersionMinor(findings.OrElse(k.Version, k.Node.KubeletVersion))
}

// FlagSource is the file that a flag comes from.
func (k Kubelet) FlagSource(flag string) string { return findings.OrElse(k.Sources[flag], k.Source) }

// Running are the values that the live process was given for a flag, in order; known is false when the process was not
// seen.
func (k Kubelet) Running(flag string) (values []string, known bool) {
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

// Provider is the value of --cloud-provider that counts: the process's, else the files'.
func (k Kubelet) Provider() string {
	if values, known := k.Running("cloud-provider"); known {
		if len(values) == 0 {
			return ""
		}
		return values[len(values)-1]
	}
	return k.Flags["cloud-provider"]
}

// InTree reports whether the kubelet uses an in-tree provider.
func (k Kubelet) InTree() bool { return k.Provider() != "" && k.Provider() != External }

// Unseen are the nodes whose kubelet no host access reaches, sorted.
func (f Facts) Unseen() []string {
	seen := map[string]bool{}
	for _, k := range f.Kubelets() {
		seen[k.Host.NodeName] = true
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

// NoKubelets is the finding where no kubelet can be judged; false when some can.
func (f Facts) NoKubelets() (v1.Finding, bool) {
	if _, missing := f.Missing(KubeletFacts...); missing {
		return findings.Dependent("KUBELET-001"), true
	}
	if len(f.Kubelets()) == 0 {
		return findings.Skip("no kubelet was read: none of the hosts that can be reached has one (%s)", HostAccess), true
	}
	return v1.Finding{}, false
}

// HostIn returns the host in the text of an Instance or a Kubelet.
func HostIn(placed string) string { return shell.Quote(placed[strings.Index(placed, "@")+1:]) }

// NameIn returns the component in the text of an Instance.
func NameIn(placed string) string {
	name, _, _ := strings.Cut(placed, "@")
	return name
}

// External is the value of --cloud-provider that leaves the cloud loops to another manager.
const External = catalogue.External

// KubeletFacts are the facts about kubelets without which KUBELET-001 is unknown. It reports why they are, so that one
// cause is one line.
var KubeletFacts = []string{"hosts/*/kubelet", "hosts/*/kubelet-config"}

// VolumeGracePeriod is how long attaching or detaching a volume may take before it counts as stuck; attach/detach
// forces a detach after 6 minutes.
const VolumeGracePeriod = 10 * time.Minute

// HostAccess is the command that reads kubelets.
const HostAccess = "transplant check --host-access=local:<directory of hosts>"
