package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// Until is when a cluster of a rollout counts as done.
const (
	// UntilCompleted: its machines are external and the in-tree provider is out of its control plane.
	UntilCompleted = "completed"
	// UntilHandover: a cloud-controller-manager runs its loops and what makes its machines knows. The machines are left to
	// their owners.
	UntilHandover = "handover"
)

// FleetHold is how the value of the hold annotation begins that a rollout may take off without being asked: "transplant
// fleet". Another one is a user's wish.
const FleetHold = "transplant fleet"

// CheckOptions says what is wrong with the choices of a fleet plan, all of it in one error.
func CheckOptions(o v1.FleetOptions) error {
	var wrong []string
	if len(o.Waves) == 0 {
		wrong = append(wrong, "waves: give at least one, e.g. 1,10%,100%")
	}
	for _, w := range o.Waves {
		if _, err := upto(w, 1); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if o.MaxParallel < 1 {
		wrong = append(wrong, fmt.Sprintf("max parallel %d: give at least 1", o.MaxParallel))
	}
	if o.MaxFailures < 0 {
		wrong = append(wrong, fmt.Sprintf("max failures %d: give 0 or more", o.MaxFailures))
	}
	if o.SoakSeconds < 0 || o.PatienceSeconds < 0 {
		wrong = append(wrong, "soak and grace: give a duration of 0 or more")
	}
	if o.Until != UntilCompleted && o.Until != UntilHandover {
		wrong = append(wrong, fmt.Sprintf("until %q is not known: use %s or %s", o.Until, UntilCompleted, UntilHandover))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// upto is how many of so many clusters are migrated when a wave is over: a number, or a percentage that is rounded up.
func upto(wave string, total int) (int, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(wave), "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 || !percent && n > 1_000_000 {
		return 0, fmt.Errorf("wave %q: give a number from 1, or a percentage from 1%% to 100%%", wave)
	}
	if percent {
		return (total*n + 99) / 100, nil
	}
	return min(n, total), nil
}

// Refusals are the sentences of the rules that keep a cluster from being migrated as it is; empty for none.
type Refusals map[Key][]string

// Refused judges every object by facts that hold for all of them, as it would be with the external provider enabled.
func Refused(all []Object, facts rules.Facts) Refusals {
	out := Refusals{}
	for _, o := range all {
		if sentences := RefusedOne(o, facts); len(sentences) > 0 {
			out[o.Key()] = sentences
		}
	}
	return out
}

// RefusedOne are the sentences of the rules that keep a cluster from being migrated as it is.
func RefusedOne(o Object, facts rules.Facts) []string {
	if provider, ok := rules.Lookup(rules.ProviderOf(o.Cluster.Spec.Cloud)); ok && provider.InTree == "" {
		return []string{provider.Title + " was never an in-tree provider: there is nothing to migrate"}
	}
	return rules.Refusals(rules.Enabled(o.Cluster), facts)
}

// Waves puts the clusters into waves, by the names that come first, then by age. So one that is added later changes no
// wave before its own. Whatever is under way or done keeps its place, so that the same choices give the same waves when
// a rollout is gone on with. Every cluster is in exactly one wave, or left with a reason.
func Waves(rows []v1.FleetCluster, refusals Refusals, o v1.FleetOptions) ([]v1.FleetWave, []v1.FleetLeft, error) {
	if err := CheckOptions(o); err != nil {
		return nil, nil, err
	}
	if unknown := unknownNames(rows, slices.Concat(o.First, o.Except)); len(unknown) > 0 {
		return nil, nil, fmt.Errorf("there is no cluster %s among those that were selected", strings.Join(unknown, ", "))
	}
	var members []v1.FleetMember
	var left []v1.FleetLeft
	for _, row := range ordered(rows, o.First) {
		if reason := leftBecause(row, refusals[keyOf(row)], o); reason != "" {
			left = append(left, v1.FleetLeft{Name: row.Name, Group: row.Group, Reason: reason})
			continue
		}
		members = append(members, member(row))
	}
	waves, rest, err := cut(members, o.Waves)
	for _, m := range rest {
		left = append(
			left,
			v1.FleetLeft{Name: m.Name, Group: m.Group, Reason: "it is after the last wave, " + o.Waves[len(o.Waves)-1]},
		)
	}
	return waves, left, err
}

func unknownNames(rows []v1.FleetCluster, names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r v1.FleetCluster) bool { return r.Name == name }) {
			out = append(out, name)
		}
	}
	return out
}

func keyOf(row v1.FleetCluster) Key { return Key{Group: row.Group, Name: row.Name} }

func ordered(rows []v1.FleetCluster, first []string) []v1.FleetCluster {
	place := func(r v1.FleetCluster) int {
		if i := slices.Index(first, r.Name); i >= 0 {
			return i
		}
		return len(first)
	}
	out := slices.Clone(rows)
	slices.SortFunc(out, func(a, b v1.FleetCluster) int {
		return cmp.Or(
			cmp.Compare(place(a), place(b)),
			a.Created.Compare(b.Created),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Group, b.Group),
		)
	})
	return out
}

// leftBecause says why a cluster is in no wave; empty when it is in one. What is under way or done is in one whatever
// is wrong with it: it keeps its place.
func leftBecause(row v1.FleetCluster, refusals []string, o v1.FleetOptions) string {
	begun := row.Standing == v1.StandingMigrating || row.Standing == v1.StandingCompleted ||
		row.Standing == v1.StandingFailed
	switch {
	case slices.Contains(o.Except, row.Name):
		return "left out by --except"
	case row.Twice:
		return "there is a Cluster of this name under both groups"
	case row.Deleting:
		return "it is being deleted"
	case row.Standing == v1.StandingExternal:
		return "it was made with the external provider"
	case begun:
		return ""
	case row.Paused != "":
		return "it is paused: " + row.Paused
	case row.Hold != "" && !canRelease(row.Hold, o):
		return "it is held: " + row.Hold
	case len(refusals) > 0:
		return "refused: " + strings.Join(refusals, "; ")
	}
	return ""
}

func canRelease(hold string, o v1.FleetOptions) bool {
	return o.ReleaseHolds || strings.HasPrefix(hold, FleetHold)
}

func member(row v1.FleetCluster) v1.FleetMember {
	return v1.FleetMember{
		Name:     row.Name,
		Group:    row.Group,
		Provider: row.Provider,
		Version:  row.Version,
		Standing: row.Standing,
		Do:       todo(row),
		Hold:     row.Hold,
	}
}

// todo is what has to be done to the object so that the cluster is migrated.
func todo(row v1.FleetCluster) string {
	switch {
	case row.Standing == v1.StandingNotEnabled:
		return v1.FleetEnable
	case row.Standing == v1.StandingWaiting && row.Hold != "":
		return v1.FleetRelease
	}
	return ""
}

// cut makes waves of members in order, and returns those behind the last one. A wave to which nothing new belongs is
// left out.
func cut(members []v1.FleetMember, specs []string) ([]v1.FleetWave, []v1.FleetMember, error) {
	var waves []v1.FleetWave
	from := 0
	for _, spec := range specs {
		to, err := upto(spec, len(members))
		if err != nil {
			return nil, nil, err
		}
		if to <= from {
			continue
		}
		waves = append(waves, v1.FleetWave{Number: len(waves) + 1, Upto: strings.TrimSpace(spec), Clusters: members[from:to]})
		from = to
	}
	return waves, members[from:], nil
}

// Select are the rows of these providers and names; all when none are given.
func Select(rows []v1.FleetCluster, providers, names []string) []v1.FleetCluster {
	var out []v1.FleetCluster
	for _, r := range rows {
		if (len(providers) == 0 || slices.Contains(providers, r.Provider)) &&
			(len(names) == 0 || slices.Contains(names, r.Name)) {
			out = append(out, r)
		}
	}
	return out
}
