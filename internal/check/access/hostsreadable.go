package access

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/hostproof"
)

func judgeHostsReadable(f facts.Facts) v1.Finding {
	if bad := f.BroadHostErrors(); !bad.Empty() {
		return findings.With(
			findings.Unknown("%s", strings.Join(bad.Grouped().Texts(), "; ")),
			"the manifests of every control-plane host",
			"/etc/kubernetes/manifests on each host",
			"",
		)
	}
	if finding, ok := judgeUnlabelled(f); ok {
		return finding
	}
	n := 0
	for _, h := range f.Hosts {
		if h.ControlPlane && !h.APIOnly {
			n++
		}
	}
	if n == 0 && len(f.Hosted) > 0 {
		return findings.Pass(
			"the control plane runs as %s; no host has a manifest",
			findings.Plural(len(f.Hosted), "Deployment"),
		)
	}
	if n == 0 {
		return findings.With(
			findings.Unknown("no host has a control-plane manifest"),
			"at least one host with /etc/kubernetes/manifests/kube-controller-manager.yaml",
			"--host-access",
			"transplant check --host-access=local:<host>=<directory>",
		)
	}
	if finding, ok := judgeLabelled(f); ok {
		return finding
	}
	return findings.Pass("the manifests of %s were read", findings.Plural(n, "control-plane host"))
}

// judgeUnlabelled finds hosts that say themselves that they are of the control plane, and no other source says so.
func judgeUnlabelled(f facts.Facts) (v1.Finding, bool) {
	var bad findings.Problems
	for _, h := range f.Hosts {
		if len(h.Claims) > 0 {
			bad.Add(
				h.Name,
				"host %s runs %s by its own word alone: no Node of its name is labelled as control plane",
				h.Name,
				strings.Join(h.Claims, ", "),
			)
		}
	}
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s control-plane manifests and no Node that is labelled as control plane",
			findings.Counting(len(bad), "host", "has", "have"),
		),
		"the label node-role.kubernetes.io/control-plane on the Node with the host's name, if it is control plane",
		"/api/v1/nodes",
		"kubectl get nodes -L node-role.kubernetes.io/control-plane   # find out who wrote the manifests of a worker",
	), !bad.Empty()
}

// judgeLabelled compares hosts whose Nodes are labelled as control plane with the addresses that the API servers
// announce. In a migration that has begun, an API server may be about to come back, and the engine asks again before
// each write.
func judgeLabelled(f facts.Facts) (v1.Finding, bool) {
	evidence := hostproof.OfSnapshot(f.Snapshot)
	const (
		source = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes, /api/v1/nodes"
		fix    = "kubectl -n default get endpointslice kubernetes -o wide; kubectl get nodes -o wide"
	)
	var shared findings.Problems
	for _, s := range evidence.Shared() {
		shared.Add(strings.Join(s.Nodes, ", "), "%s", s)
	}
	unproven, named := sortLabelled(f, evidence)
	if reasons := f.UnknownReasons("endpoints"); shared.Empty() && !unproven.Empty() && len(reasons) > 0 &&
		len(f.APIServers) == 0 && !f.Opts.InProgress {
		return findings.With(
			findings.Unknown("what the API servers announce could not be read: %s", strings.Join(reasons, "; ")),
			"an address in the EndpointSlice default/kubernetes that a labelled Node has",
			source,
			fix,
		), true
	}
	bad, outcome := append(shared, unproven...), v1.Fail
	if f.Opts.InProgress && shared.Empty() {
		outcome = v1.Warn
	}
	if !bad.Empty() {
		return findings.With(
			bad.Finding(outcome, "%s", labelledSummary(len(shared), len(unproven))),
			"one Node for each address that the API servers announce, and such an address on each labelled Node that runs the control plane",
			source,
			fix,
		), true
	}
	if named.Empty() {
		return v1.Finding{}, false
	}
	return findings.With(
		named.Finding(
			v1.Warn,
			"%s taken for the control plane by the label of a Node and by --%s; no Node has an address that the API servers announce: "+
				"make sure that these are the control plane's: %s",
			findings.Counting(len(named), "host", "is", "are"),
			hostproof.Flag,
			strings.Join(named.Objects(), ", "),
		),
		"an address in the EndpointSlice default/kubernetes that a labelled Node has",
		source,
		fix,
	), true
}

func labelledSummary(shared, unproven int) string {
	var parts []string
	if shared > 0 {
		parts = append(parts, fmt.Sprintf("%s of API servers on several Nodes", findings.Counting(shared, "address", "is", "are")))
	}
	if unproven > 0 {
		parts = append(
			parts,
			fmt.Sprintf(
				"%s labelled as control plane and at no address of an API server",
				findings.Counting(unproven, "host", "is", "are"),
			),
		)
	}
	return strings.Join(parts, "; ")
}

// sortLabelled returns the labelled hosts for which there is no second proof, and those for which there is the
// operator's word.
func sortLabelled(f facts.Facts, evidence *hostproof.Evidence) (unproven, named findings.Problems) {
	for _, h := range f.Hosts {
		if !hostproof.IsLabelled(f.Snapshot, h) {
			continue
		}
		switch evidence.Judge(h.Name) {
		case hostproof.Elsewhere, hostproof.LabelAlone:
			unproven.Add(h.Name, "%s", evidence.Why(h.Name))
		case hostproof.Named:
			named.Add(h.Name, "host %s is taken for the control plane by the label of its Node and your word", h.Name)
		case hostproof.Proven, hostproof.Shared:
		}
	}
	return unproven, named
}
