package controlplane

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

var controllersOverridden = rule.Check{
	Code:      "CP-010",
	Reason:    "ControllersOverridden",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "--controllers, and a cloud loop that it leaves out",
	DependsOn: rule.OnHosts,
	Judge:     judgeControllers,
}

func judgeControllers(f facts.Facts) v1.Finding {
	var bad findings.Problems
	given := ""
	for _, p := range f.InstancesOf(component.KCM) {
		value, set := p.Flags["controllers"]
		if !set {
			continue
		}
		given = value
		for _, complaint := range controllersComplaints(p, value) {
			bad.Add(p.String(), "%s has --controllers=%s: %s", p, value, complaint)
		}
	}
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Warn, "%s", bad[0].Text),
			"--controllers with \"*\" and no cloud loop switched off",
			"manifests of "+component.KCM,
			"kubectl -n kube-system get pods -l component="+component.KCM+" -o jsonpath='{..command}'",
		)
	case len(f.InstancesOf(component.KCM)) == 0:
		return findings.Unknown("no %s was found", component.KCM)
	case given == "":
		return findings.Pass("--controllers is not given: all controllers of %s run that are on by default", component.KCM)
	}
	return findings.Pass("--controllers=%s leaves every cloud loop on; the plan keeps the list", given)
}

func controllersComplaints(p facts.Instance, value string) []string {
	var out []string
	if !hasEntry(value, "*") {
		out = append(out, `without "*" only the controllers that it names run, and none that a later version adds`)
	}
	for _, loop := range controllernames.CloudLoops {
		if facts.SwitchedOff(value, loop) && !p.External() {
			out = append(out, fmt.Sprintf("the %s loop is off, and stays off in the cloud-controller-manager", loop))
		}
	}
	for _, name := range []string{"node-lifecycle", "nodelifecycle", "node-lifecycle-controller"} {
		if hasEntry(value, "-"+name) {
			out = append(
				out,
				"the node lifecycle controller is off: nodes whose kubelet is gone stay Ready, and no cloud-controller-manager marks them",
			)
		}
	}
	return out
}

func hasEntry(list, entry string) bool {
	for e := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(e) == entry {
			return true
		}
	}
	return false
}

var ipamFlags = rule.Check{
	Code:      "CP-018",
	Reason:    "NodeIPAMContradiction",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "--allocate-node-cidrs, --cluster-cidr and --node-cidr-mask-size, and the two that contradict each other",
	DependsOn: rule.OnHosts,
	Judge:     judgeIPAMFlags,
}

func judgeIPAMFlags(f facts.Facts) v1.Finding {
	var bad, note findings.Problems
	for _, p := range f.InstancesOf(component.KCM) {
		for _, complaint := range ipamComplaints(p) {
			bad.Add(p.String(), "%s: %s", p, complaint)
		}
		cidrs := p.On("allocate-node-cidrs", false)
		if _, given := p.Flags["configure-cloud-routes"]; given && p.On("configure-cloud-routes", true) && !cidrs &&
			!p.External() {
			note.Add(p.String(), "%s: --configure-cloud-routes=true does nothing without --allocate-node-cidrs", p)
		}
		if cidrs && facts.SwitchedOff(p.Flag("controllers", "*"), controllernames.NodeIPAM) {
			note.Add(p.String(), "%s: --allocate-node-cidrs does nothing, since --controllers switches nodeipam off", p)
		}
	}
	const expected, source = "flags about pod CIDRs that agree", "manifests of " + component.KCM
	fix := "transplant explain CP-018"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "%s", bad[0].Text),
			expected,
			source,
			"sed -n '/cidr\\|controllers\\|cloud-provider/p' /etc/kubernetes/manifests/"+component.KCM+".yaml   # on each host named",
		)
	case len(f.InstancesOf(component.KCM)) == 0:
		return findings.Unknown("no %s was found", component.KCM)
	case !note.Empty():
		return findings.With(note.Finding(v1.Warn, "%s", note[0].Text), expected, source, fix)
	}
	p := f.InstancesOf(component.KCM)[0]
	if !p.On("allocate-node-cidrs", false) {
		return findings.Pass("%s allocates no pod CIDRs", component.KCM)
	}
	return findings.Pass(
		"%s allocates pod CIDRs of %s by %s",
		component.KCM,
		p.Flag("cluster-cidr", "the cloud's choice"),
		p.Flag("cidr-allocator-type", component.RangeAllocator),
	)
}

func ipamComplaints(p facts.Instance) []string {
	var out []string
	allocator := p.Flag("cidr-allocator-type", component.RangeAllocator)
	runs := p.On("allocate-node-cidrs", false) && !facts.SwitchedOff(p.Flag("controllers", "*"), controllernames.NodeIPAM)
	provider := p.Flag("cloud-provider", "")
	known, _ := cloudprovider.Lookup(provider)
	switch {
	case !runs:
	case allocator == component.CloudAllocator && p.External():
		out = append(
			out,
			"--cidr-allocator-type=CloudAllocator needs a cloud provider, and --cloud-provider is "+findings.OrElse(
				provider,
				"empty",
			)+": the manager exits when it leads",
		)
	case allocator == component.CloudAllocator && !slices.Contains(known.Allocators, component.CloudAllocator):
		out = append(out, "--cidr-allocator-type=CloudAllocator is for gce alone, and --cloud-provider is "+provider)
	case allocator != component.CloudAllocator && p.Flag("cluster-cidr", "") == "":
		out = append(
			out,
			"--allocate-node-cidrs without --cluster-cidr: the loop cannot start, and the manager exits when it leads",
		)
	}
	return out
}
