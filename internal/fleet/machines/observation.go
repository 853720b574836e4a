package machines

import (
	"fmt"
	"slices"
	"strings"
)

// Observation is what Observe makes of Facts.
type Observation struct {
	// Total machines: Machines, and Nodes that no Machine owns. Done of them run external, Waiting do not: Total = Done + Waiting.
	Total, Done, Waiting int
	// Deleting of Total are being deleted; Wanted is how many machines MachineDeployments and free MachineSets want.
	Deleting, Wanted int
	// Machines, those that wait first, then by namespace and name.
	Machines []MachineState
	// Deployments by namespace and name.
	Deployments []DeploymentState
	// Complete tells that the migration of the machines is over: nothing waits, nothing is unknown, and what makes machines makes external ones.
	Complete bool
	// Unknown are sentences about what could not be looked at.
	Unknown []string
	// Warnings are sentences about what does not hold the migration up and should be known.
	Warnings []string
}

// MachineState is one machine, or one Node without a Machine.
type MachineState struct {
	// Namespace and Name of the Machine; both empty for a Node without one.
	Namespace, Name string
	// Node is the name of its Node; empty when it has none.
	Node string
	// Deployment is the name of its MachineDeployment; empty when it has none.
	Deployment string
	// Deleting tells that its deletion was asked for.
	Deleting bool
	Migrated bool
	// Reason why it is not migrated; empty when it is.
	Reason Reason
	// Message says the same as a clause, with what to do where somebody has to.
	Message string
	// Evidence that its kubelet is external, or is not.
	Evidence Evidence
}

// Title names it in sentences.
func (m MachineState) Title() string {
	if m.Name == "" {
		return "node " + m.Node
	}
	return m.Name
}

// DeploymentState is one MachineDeployment.
type DeploymentState struct {
	Namespace, Name string
	// Wanted machines, how many there are that are not being deleted, and how many of those are migrated.
	Wanted, Machines, Done int
	// Settled tells that its rollout is finished, whatever its machines run.
	Settled bool
	// Reason why it is not settled, or OldTemplate; empty otherwise.
	Reason  Reason
	Message string
}

// Key is namespace/name.
func (d DeploymentState) Key() string { return d.Namespace + "/" + d.Name }

// shown is how many machines of a reason a message names.
const shown = 3

// Reasons are one sentence per reason, sorted: how many machines wait for it, and the first of them.
func (o Observation) Reasons() []string {
	names := map[Reason][]string{}
	for _, m := range o.Machines {
		if !m.Migrated {
			names[m.Reason] = append(names[m.Reason], m.Title())
		}
	}
	var out []string
	for reason, list := range names {
		slices.Sort(list)
		more := ""
		if len(list) > shown {
			list, more = list[:shown], fmt.Sprintf(" and %d more", len(list)-shown)
		}
		out = append(out, fmt.Sprintf("%s: %s%s", reason, strings.Join(list, ", "), more))
	}
	for _, d := range o.Deployments {
		if !d.Settled {
			out = append(out, fmt.Sprintf("%s: MachineDeployment %s %s", d.Reason, d.Name, d.Message))
		}
	}
	slices.Sort(out)
	return out
}

// Message is the observation in a sentence or two, of bounded length.
func (o Observation) Message() string {
	if len(o.Unknown) > 0 {
		return "not known: " + strings.Join(first(o.Unknown, shown), "; ")
	}
	head := fmt.Sprintf("%d of %d machines run with the external cloud provider", o.Done, o.Total)
	if o.Total == 0 {
		head = "there are no machines"
	}
	if reasons := o.Reasons(); len(reasons) > 0 {
		return head + "; " + strings.Join(first(reasons, 2*shown), "; ")
	}
	if !o.Complete {
		return head + "; machine-controller, operating-system-manager or the cloud-controller-manager is not ready to make external ones"
	}
	return head
}

func first(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(slices.Clone(list[:n]), fmt.Sprintf("and %d more", len(list)-n))
}
