// Package controllernames decides what a cloud loop is called, for each minor version. The names are those in the
// flags, the leader migration config and the metrics of a controller manager.
//
// Leader migration compares the names in its config with the names under which the manager registered its controllers,
// letter by letter. A name of another version's dialect is not an error anywhere. It matches nothing, and the loop
// counts as not migrated. The manager runs it under its own main lease, next to the other manager. That is why the
// names are a table and not a string constant.
package controllernames

import (
	"slices"

	"github.com/transplant-dev/transplant/internal/component"
)

// Loop is a cloud controller, whatever a manager calls it. Its value is the loop's short name, which is also its name
// in metrics.
type Loop string

// The loops that may run in either manager.
const (
	Service       Loop = "service"
	Route         Loop = "route"
	NodeLifecycle Loop = "cloud-node-lifecycle"
	NodeIPAM      Loop = "nodeipam"
)

// Loops are all loops in reporting order.
var Loops = []Loop{Service, Route, NodeLifecycle, NodeIPAM}

// CloudLoops are the loops that every migration moves, in reporting order. Node IPAM is not one of them:
// kube-controller-manager keeps it unless the cloud brings its own.
var CloudLoops = []Loop{Service, Route, NodeLifecycle}

// Component is a controller manager, by the name that leader migration configs use for it.
type Component string

// The two managers.
const (
	KubeControllerManager  Component = component.KCM
	CloudControllerManager Component = component.CCM
)

// Components are both managers, the one that loses the loops first.
var Components = []Component{KubeControllerManager, CloudControllerManager}

// Dialect says which versions understand a name.
type Dialect string

const (
	// Short names are understood by kube-controller-manager up to 1.27 and cloud-controller-manager up to 0.27, and
	// everywhere in metrics.
	Short Dialect = "short"
	// Canonical names are understood by every later version.
	Canonical Dialect = "canonical"
	// Mistaken names are in the default leader migration config of 0.28 and later, and match no controller of any version.
	Mistaken Dialect = "mistaken"
)

// lastShortMinor is the last minor version in which a manager registered its controllers under the short names. For
// cloud-controller-manager it is the minor of k8s.io/cloud-provider, which the providers' own versions follow.
var lastShortMinor = map[Component]int{
	KubeControllerManager:  27,
	CloudControllerManager: 27,
}

// canonical are the names since 1.28. See k8s.io/cloud-provider/names, and for node IPAM
// cmd/kube-controller-manager/names.
var canonical = map[Loop]string{
	Service:       "service-lb-controller",
	Route:         "node-route-controller",
	NodeLifecycle: "cloud-node-lifecycle-controller",
	NodeIPAM:      "node-ipam-controller",
}

// mistaken are names that look right and match nothing. They are the client names ("user agents") of the two loops, and
// got into k8s.io/controller-manager/pkg/leadermigration/config/default.go in 0.28.
var mistaken = map[string]Loop{
	"service-controller": Service,
	"route-controller":   Route,
}

// Name returns what component of version 1.minor (or 0.minor) calls a loop, or "" for a component or loop that does not
// exist.
func Name(component Component, minor int, loop Loop) string {
	if !slices.Contains(Loops, loop) {
		return ""
	}
	switch DialectOf(component, minor) {
	case Short:
		return string(loop)
	case Canonical:
		return canonical[loop]
	case Mistaken: // the dialect of no version
	}
	return ""
}

// DialectOf returns the names that component of version 1.minor (or 0.minor) understands in a leader migration config,
// or "" for a component that does not exist.
func DialectOf(component Component, minor int) Dialect {
	last, known := lastShortMinor[component]
	switch {
	case !known:
		return ""
	case minor <= last:
		return Short
	default:
		return Canonical
	}
}

// Lookup returns the loop that a name means and which dialect the name is of. A mistaken name has a loop too: the one
// it was meant for.
func Lookup(name string) (Loop, Dialect, bool) {
	for _, loop := range Loops {
		switch name {
		case string(loop):
			return loop, Short, true
		case canonical[loop]:
			return loop, Canonical, true
		}
	}
	if loop, ok := mistaken[name]; ok {
		return loop, Mistaken, true
	}
	return "", "", false
}

// MetricName returns a loop's name in running_managed_controllers. It is the short name in every version: the rename of
// 1.28 left the metrics alone.
func MetricName(loop Loop) string { return string(loop) }

// LoopOfMetric returns the loop that a name in running_managed_controllers stands for; false for a controller that is
// not a cloud loop.
func LoopOfMetric(name string) (Loop, bool) {
	loop := Loop(name)
	return loop, slices.Contains(Loops, loop)
}

// Known returns the names of all loops in both working dialects, in reporting order, for messages that list what may be
// written.
func Known() []string {
	var names []string
	for _, loop := range Loops {
		names = append(names, string(loop), canonical[loop])
	}
	return names
}

// Explain says in a sentence why component of version 1.minor does not understand a name, or returns "" when it does.
func Explain(component Component, minor int, name string) string {
	loop, dialect, ok := Lookup(name)
	want := Name(component, minor, loop)
	switch {
	case !ok:
		return "no cloud loop has this name"
	case name == want:
		return ""
	case dialect == Mistaken:
		return "no version has a controller of this name, though the default configuration since 0.28 lists it; the controller is called " + want + " here"
	case dialect == Short:
		return "this is the name up to 1.27; from 1.28 on the controller is called " + want
	default:
		return "this is the name from 1.28 on; up to 1.27 the controller is called " + want
	}
}
