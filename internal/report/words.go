package report

import (
	"fmt"
	"net"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// headlines say in a few words what each result means.
var headlines = map[string]string{
	v1.ResultOK:         "One owner at a time, and nothing lost",
	v1.ResultFailed:     "The migration failed",
	v1.ResultOverlap:    "Two managers acted on one loop",
	v1.ResultLost:       "Something is not as it was",
	v1.ResultDisrupted:  "Clients noticed more than the budget allows",
	v1.ResultUnknown:    "Not proven: evidence is missing",
	v1.ResultUnfinished: "Not finished",
	v1.ResultRolledBack: "Rolled back",
}

func headline(result string) string {
	if h := headlines[result]; h != "" {
		return h
	}
	return result
}

// summary is the sentence under the headline of a good result.
func summary(r v1.Report) string {
	s := fmt.Sprintf("%s handed over in %s without two managers running one loop", plural(len(movedLoops(r)), "cloud loop"), duration(r.DurationSeconds))
	if r.Handover.OverlappingWrites != nil {
		s += ", which the cloud's own audit log confirms"
	}
	return s + fmt.Sprintf(". No loop was without a manager for longer than %s at a time. %s and %s are what they were.",
		duration(r.Handover.GapSeconds), plural(r.Inventory.LoadBalancers.After, "load balancer"), plural(r.Inventory.Nodes.After, "node"))
}

// movedLoops are the loops that changed their component.
func movedLoops(r v1.Report) map[string]bool {
	first, moved := map[string]string{}, map[string]bool{}
	for _, t := range r.Tenures {
		if first[t.Loop] == "" {
			first[t.Loop] = t.Component
		} else if first[t.Loop] != t.Component {
			moved[t.Loop] = true
		}
	}
	return moved
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration writes seconds for people.
func duration(seconds float64) string {
	switch {
	case seconds < 0:
		return "-" + duration(-seconds)
	case seconds < 10:
		return fmt.Sprintf("%.2f s", seconds)
	case seconds < 99.95:
		return fmt.Sprintf("%.1f s", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// short abbreviates a manager, component@host. Hosts of clouds that are named by their DNS name share its domain, behind which a narrow label would hide
// what tells them apart.
func short(manager string) string {
	component, host, ok := strings.Cut(manager, "@")
	if !ok {
		return manager
	}
	if net.ParseIP(host) == nil {
		host, _, _ = strings.Cut(host, ".")
	}
	return abbreviated(component) + " " + host
}

func abbreviated(component string) string {
	switch component {
	case kcm:
		return "KCM"
	case ccm:
		return "CCM"
	}
	return component
}

// The managers.
const (
	kcm = "kube-controller-manager"
	ccm = "cloud-controller-manager"
)

// successor names who took a loop over, if anybody.
func successor(manager string) string {
	if manager == "" {
		return "nobody"
	}
	return manager
}

// count writes a number that may not have been counted.
func count(n *int) string {
	if n == nil {
		return "not counted"
	}
	return fmt.Sprint(*n)
}

// certainty says how exact a gap is.
func certainty(certain bool) string {
	if certain {
		return "measured"
	}
	return "at most: a look was missing"
}

// clusterName is the best name that the cluster has.
func clusterName(c v1.Cluster) string {
	for _, name := range []string{c.Name, c.Context, c.UID} {
		if name != "" {
			return name
		}
	}
	return "cluster"
}
