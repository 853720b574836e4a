package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Owners of the cloud loops, as a row says them.
const (
	OwnersInTree   = "in-tree"
	OwnersExternal = "external"
	OwnersBoth     = "both"
	OwnersNone     = "nobody"
	OwnersUnknown  = "unknown"
)

// Status makes the document of all clusters, as they are at that time.
func Status(objects []Object, seed v1.Cluster, at time.Time) v1.FleetStatus {
	rows := Rows(objects)
	return v1.FleetStatus{
		TypeMeta: v1.Type(v1.KindFleetStatus),
		Time:     at,
		Seed:     seed,
		Summary:  Summary(rows),
		Progress: Progress(rows, at),
		Clusters: rows,
	}
}

// Rows are the clusters by name, then by group.
func Rows(objects []Object) []v1.FleetCluster { return rowsOf(objects, Row) }

// Memory remembers the rows of clusters that have not changed. Texts of each are masked, and a page that is open asks
// for all of them at each change of one. It is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	rows map[Key]remembered
}

type remembered struct {
	uid     types.UID
	version string
	twice   bool
	row     v1.FleetCluster
}

// Rows is the function Rows. The rows are shared with later callers.
func (m *Memory) Rows(objects []Object) []v1.FleetCluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := make(map[Key]remembered, len(objects))
	out := rowsOf(objects, func(o Object, twice bool) v1.FleetCluster {
		r := remembered{uid: o.Cluster.UID, version: o.Cluster.ResourceVersion, twice: twice}
		was := m.rows[o.Key()]
		if r.version != "" && was.uid == r.uid && was.version == r.version && was.twice == twice {
			r = was
		} else {
			r.row = Row(o, twice)
		}
		now[o.Key()] = r
		return r.row
	})
	m.rows = now
	return out
}

func rowsOf(objects []Object, row func(Object, bool) v1.FleetCluster) []v1.FleetCluster {
	groups := map[string]int{}
	for _, o := range objects {
		groups[o.Cluster.Name]++
	}
	out := make([]v1.FleetCluster, 0, len(objects))
	for _, o := range objects {
		out = append(out, row(o, groups[o.Cluster.Name] > 1))
	}
	slices.SortFunc(out, func(a, b v1.FleetCluster) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group))
	})
	return out
}

// Row is one cluster. Twice reports whether there is one of the same name under the other group.
func Row(o Object, twice bool) v1.FleetCluster {
	c := o.Cluster
	migration := c.Status.Conditions[kubermaticv1.ConditionMigration]
	row := v1.FleetCluster{
		Name:      c.Name,
		Group:     o.Group,
		UID:       string(c.UID),
		Created:   c.CreationTimestamp.UTC(),
		HumanName: c.Spec.HumanReadableName,
		Namespace: c.ControlPlaneNamespace(),
		Provider: rules.ProviderOf(
			c.Spec.Cloud,
		),
		Version:          c.Spec.Version,
		External:         c.External(),
		Phase:            migration.Reason,
		Since:            migration.LastTransitionTime.UTC(),
		Owners:           owners(c.Status.Conditions),
		Machines:         machines(c.Status.Conditions[kubermaticv1.ConditionMachines].Message),
		Hold:             hold(c.Annotations),
		RestartsMachines: c.RestartsMachines(),
		Twice:            twice,
		Deleting:         c.DeletionTimestamp != nil,
		Conditions:       conditions(c.Status.Conditions),
	}
	row.Began, row.Place = beganAt(c.Status.Conditions), placeOf(c.Annotations)
	_, row.Confirmed = c.Annotations[kubermaticv1.AnnotationPlan]
	if c.CreationTimestamp.IsZero() {
		row.Created = time.Time{}
	}
	if migration.LastTransitionTime.IsZero() {
		row.Since = time.Time{}
	}
	if c.Spec.Pause {
		row.Paused = cmp.Or(c.Spec.PauseReason, "paused")
	}
	if stuck := c.Status.Conditions[kubermaticv1.ConditionStuck]; stuck.Status == corev1.ConditionTrue &&
		canGetStuck(row.Phase) {
		row.Stuck = cmp.Or(stuck.Message, "the phase takes too long")
	}
	row.Standing = standingOf(c, row)
	row.Message = message(row, migration.Message)
	// What an operator of an earlier version wrote, or another account, is not masked yet.
	row.Message, row.Stuck, row.Paused = mask.Text(row.Message), mask.Text(row.Stuck), mask.Text(row.Paused)
	row.Hold = mask.Text(row.Hold)
	return row
}

// hold is who keeps a cluster from being migrated; the annotation counts even when it says nothing.
func hold(annotations map[string]string) string {
	who, held := annotations[kubermaticv1.AnnotationHold]
	if held {
		return cmp.Or(who, "held")
	}
	return ""
}

// canGetStuck reports whether something is waited for in a phase that may take too long.
func canGetStuck(phase string) bool {
	return phase != kubermaticv1.PhaseCompleted && phase != kubermaticv1.PhaseNotNeeded &&
		phase != kubermaticv1.PhaseFailed &&
		phase != ""
}

// standingOf is what the phase comes to, or the object where no operator has said a phase.
func standingOf(c *kubermaticv1.Cluster, row v1.FleetCluster) string {
	switch row.Phase {
	case kubermaticv1.PhaseCompleted:
		return v1.StandingCompleted
	case kubermaticv1.PhaseFailed:
		return v1.StandingFailed
	case kubermaticv1.PhaseBlocked:
		return v1.StandingBlocked
	case kubermaticv1.PhaseHandover, kubermaticv1.PhaseComponents, kubermaticv1.PhaseMachines, kubermaticv1.PhaseFinish:
		return v1.StandingMigrating
	case kubermaticv1.PhaseQueued, kubermaticv1.PhaseHeld:
		return v1.StandingWaiting
	}
	_, annotated := c.Annotations[kubermaticv1.CCMMigrationNeeded]
	switch {
	case c.MigrationCompleted():
		return v1.StandingCompleted
	case row.Twice:
		return v1.StandingBlocked
	case !row.External:
		return v1.StandingNotEnabled
	case annotated:
		return v1.StandingWaiting // enabled, and no operator has looked since
	}
	return v1.StandingExternal
}

// message is the one line that matters most.
func message(row v1.FleetCluster, said string) string {
	switch {
	case row.Twice:
		return "there is a Cluster of this name under both groups, for one control plane: to delete one may delete that; see Two groups in docs/explanation/fleet-operator.md"
	case row.Deleting && row.Phase == "":
		return "the Cluster is being deleted"
	case row.Stuck != "":
		return row.Stuck
	case row.Standing == v1.StandingWaiting && (row.Phase == "" || row.Phase == kubermaticv1.PhaseNotNeeded):
		return "no operator has looked at this cluster since it was enabled"
	}
	return said
}

// owners is who runs the loops, by the two conditions that say so.
func owners(c kubermaticv1.ClusterConditions) string {
	off, ready := c[kubermaticv1.ConditionLoopsOff], c[kubermaticv1.ConditionCCMReady]
	switch {
	case off.Reason == state.ReasonTwoOwners:
		return OwnersBoth
	case off.Status == corev1.ConditionFalse:
		return OwnersInTree
	case off.Status == corev1.ConditionUnknown || ready.Status == corev1.ConditionUnknown:
		return OwnersUnknown
	case ready.Status == corev1.ConditionTrue:
		return OwnersExternal
	case off.Status == corev1.ConditionTrue && ready.Status == corev1.ConditionFalse:
		return OwnersNone
	}
	return ""
}

// counted is how ConditionMachines begins.
var counted = regexp.MustCompile(`^(\d{1,9}) of (\d{1,9}) machines `)

func machines(message string) *v1.FleetMachines {
	m := counted.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	migrated, err := strconv.Atoi(m[1])
	total, totalErr := strconv.Atoi(m[2])
	if err != nil || totalErr != nil {
		return nil
	}
	return &v1.FleetMachines{Migrated: migrated, Total: total}
}

func conditions(all kubermaticv1.ClusterConditions) []v1.FleetCondition {
	var out []v1.FleetCondition
	for _, t := range slices.Sorted(maps.Keys(all)) {
		c := all[t]
		condition := v1.FleetCondition{
			Type:    string(t),
			Status:  string(c.Status),
			Reason:  c.Reason,
			Message: mask.Text(c.Message),
		}
		if !c.LastTransitionTime.IsZero() {
			condition.Since = c.LastTransitionTime.UTC()
		}
		out = append(out, condition)
	}
	return out
}

// severity orders standings: the worst first.
var severity = map[string]int{
	v1.StandingFailed:     0,
	v1.StandingBlocked:    1,
	v1.StandingMigrating:  2,
	v1.StandingWaiting:    3,
	v1.StandingCompleted:  4,
	v1.StandingNotEnabled: 5,
	v1.StandingExternal:   6,
}

// Standings are all standings, the worst first.
func Standings() []string {
	return slices.SortedFunc(maps.Keys(severity), func(a, b string) int { return severity[a] - severity[b] })
}

// Worst sorts rows for who has to do something. Those with two owners come first, then those that are stuck or went
// wrong; then standing and name decide.
// The rows given are left as they are.
func Worst(rows []v1.FleetCluster) []v1.FleetCluster {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b v1.FleetCluster) int {
		return cmp.Or(
			trouble(a)-trouble(b),
			severity[a.Standing]-severity[b.Standing],
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Group, b.Group),
		)
	})
	return out
}

func trouble(row v1.FleetCluster) int {
	switch {
	case row.Owners == OwnersBoth:
		return 0
	case row.Stuck != "" || row.Standing == v1.StandingFailed || row.Standing == v1.StandingBlocked:
		return 1
	}
	return 2
}

// Summary counts rows.
func Summary(rows []v1.FleetCluster) v1.FleetSummary {
	s := v1.FleetSummary{Clusters: len(rows), Standings: map[string]int{}}
	for _, r := range rows {
		s.Standings[r.Standing]++
		if r.Machines != nil {
			s.Machines.Migrated += r.Machines.Migrated
			s.Machines.Total += r.Machines.Total
		}
	}
	return s
}

// Sentence is a summary in words.
func Sentence(s v1.FleetSummary) string {
	out := english.Count(s.Clusters, "cluster")
	separator := ": "
	for _, standing := range Standings() {
		if n := s.Standings[standing]; n > 0 {
			out += fmt.Sprintf("%s%d %s", separator, n, Words(standing))
			separator = ", "
		}
	}
	if s.Machines.Total > 0 {
		out += fmt.Sprintf(" · %d of %d machines are external", s.Machines.Migrated, s.Machines.Total)
	}
	return out
}

// OwnersWords are owners as people say it.
func OwnersWords(owners string) string {
	switch owners {
	case OwnersBoth:
		return "TWO MANAGERS"
	case OwnersNone:
		return "no manager"
	}
	return owners
}

// Words are a standing as people say it.
func Words(standing string) string {
	switch standing {
	case v1.StandingNotEnabled:
		return "not enabled"
	case v1.StandingExternal:
		return "external from the start"
	}
	return standing
}
