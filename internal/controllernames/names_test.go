package controllernames

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	upstream "k8s.io/cloud-provider/names"
)

func TestNameFollowsTheDialectOfTheVersion(t *testing.T) {
	short := []string{"service", "route", "cloud-node-lifecycle", "nodeipam"}
	canonical := []string{"service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller", "node-ipam-controller"}
	for _, c := range []struct {
		name      string
		component Component
		minor     int
		want      []string
	}{
		{"the first kube-controller-manager with leader migration", KubeControllerManager, 21, short},
		{"the last kube-controller-manager with the in-tree AWS provider", KubeControllerManager, 26, short},
		{"the last kube-controller-manager with short names", KubeControllerManager, 27, short},
		{"the first kube-controller-manager with canonical names", KubeControllerManager, 28, canonical},
		{"a kube-controller-manager without in-tree providers", KubeControllerManager, 37, canonical},
		{"a cloud-controller-manager of the same age as the last in-tree AWS provider", CloudControllerManager, 26, short},
		{"the last cloud-controller-manager with short names", CloudControllerManager, 27, short},
		{"the first cloud-controller-manager with canonical names", CloudControllerManager, 28, canonical},
		{"the cloud-controller-manager that this project builds", CloudControllerManager, 37, canonical},
		{"a component that does not exist", Component("kube-scheduler"), 30, []string{"", "", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, loop := range Loops {
				got = append(got, Name(c.component, c.minor, loop))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
	if got := Name(KubeControllerManager, 30, "attachdetach"); got != "" {
		t.Errorf("Name of something that is not a cloud loop = %q, want none", got)
	}
}

func TestNamesAreUpstreams(t *testing.T) {
	// The alias map is upstream's own statement of which short name became which canonical one. Node IPAM is not in it: it is registered
	// by kube-controller-manager, whose names package is not importable.
	aliases := upstream.CCMControllerAliases()
	for _, loop := range CloudLoops {
		want, ok := aliases[string(loop)]
		if !ok {
			t.Errorf("upstream has no alias %q", loop)
		}
		if got := Name(CloudControllerManager, 37, loop); got != want {
			t.Errorf("canonical name of %s = %q, upstream registers %q", loop, got, want)
		}
	}
}

func TestLookupUnderstandsEveryDialect(t *testing.T) {
	for name, want := range map[string]struct {
		loop    Loop
		dialect Dialect
		known   bool
	}{
		"service":                         {Service, Short, true},
		"service-lb-controller":           {Service, Canonical, true},
		"service-controller":              {Service, Mistaken, true},
		"route":                           {Route, Short, true},
		"node-route-controller":           {Route, Canonical, true},
		"route-controller":                {Route, Mistaken, true},
		"cloud-node-lifecycle":            {NodeLifecycle, Short, true},
		"cloud-node-lifecycle-controller": {NodeLifecycle, Canonical, true},
		"nodeipam":                        {NodeIPAM, Short, true},
		"node-ipam-controller":            {NodeIPAM, Canonical, true},
		"cloud-node":                      {}, // runs only in cloud-controller-manager, so it never migrates
		"Service":                         {},
		"":                                {},
	} {
		loop, dialect, known := Lookup(name)
		if loop != want.loop || dialect != want.dialect || known != want.known {
			t.Errorf("Lookup(%q) = %q, %q, %t; want %q, %q, %t", name, loop, dialect, known, want.loop, want.dialect, want.known)
		}
	}
}

func TestEveryKnownNameIsLookedUpToALoopInReportingOrder(t *testing.T) {
	var loops []Loop
	for _, name := range Known() {
		loop, _, ok := Lookup(name)
		if !ok {
			t.Errorf("known name %q is not found", name)
		}
		loops = append(loops, loop)
	}
	if got := slices.Compact(loops); !slices.Equal(got, Loops) {
		t.Errorf("known names are of the loops %v, want %v", got, Loops)
	}
}

func TestMetricsKeepTheShortNames(t *testing.T) {
	for _, loop := range Loops {
		back, ok := LoopOfMetric(MetricName(loop))
		if !ok || back != loop {
			t.Errorf("LoopOfMetric(MetricName(%s)) = %s, %t", loop, back, ok)
		}
	}
	for _, name := range []string{"cloud-node", "service-lb-controller", ""} {
		if loop, ok := LoopOfMetric(name); ok {
			t.Errorf("LoopOfMetric(%q) = %s, want none", name, loop)
		}
	}
}

func TestExplainNamesTheRightNameForTheVersion(t *testing.T) {
	for _, c := range []struct {
		name      string
		component Component
		minor     int
		given     string
		want      string
	}{
		{"the right short name", KubeControllerManager, 26, "route", ""},
		{"the right canonical name", CloudControllerManager, 37, "node-route-controller", ""},
		{"a short name given to a new manager", CloudControllerManager, 37, "route",
			"this is the name up to 1.27; from 1.28 on the controller is called node-route-controller"},
		{"a canonical name given to an old manager", KubeControllerManager, 26, "service-lb-controller",
			"this is the name from 1.28 on; up to 1.27 the controller is called service"},
		{"a name of the default configuration", CloudControllerManager, 37, "service-controller",
			"no version has a controller of this name, though the default configuration since 0.28 lists it; the controller is called service-lb-controller here"},
		{"a name of nothing", CloudControllerManager, 37, "svc", "no cloud loop has this name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Explain(c.component, c.minor, c.given); got != c.want {
				t.Errorf("Explain = %q, want %q", got, c.want)
			}
		})
	}
}
