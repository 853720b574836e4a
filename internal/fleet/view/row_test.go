package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestWhereAClusterStands(t *testing.T) {
	type change = func(*kubermaticv1.Cluster)
	hold := annotate(kubermaticv1.AnnotationHold, "alice: after the sale")
	for name, c := range map[string]struct {
		changes  []change
		standing string
		message  string
	}{
		"nobody asked for anything":      {nil, v1.StandingNotEnabled, ""},
		"the feature is there and false": {[]change{func(c *kubermaticv1.Cluster) { c.Spec.Features = map[string]bool{"externalCloudProvider": false} }}, v1.StandingNotEnabled, ""},
		"it was made external": {
			[]change{func(c *kubermaticv1.Cluster) { c.Spec.Features = map[string]bool{"externalCloudProvider": true} }},
			v1.StandingExternal,
			"",
		},
		"enabled, and no operator has looked":    {[]change{enabled}, v1.StandingWaiting, "no operator has looked at this cluster since it was enabled"},
		"enabled, and the operator spoke before": {[]change{enabled, in(kubermaticv1.PhaseNotNeeded, "the feature is off", time.Hour)}, v1.StandingWaiting, "no operator has looked at this cluster since it was enabled"},
		"queued":                                 {[]change{enabled, in(kubermaticv1.PhaseQueued, "it waits for its turn", 0)}, v1.StandingWaiting, "it waits for its turn"},
		"held":                                   {[]change{enabled, hold, in(kubermaticv1.PhaseHeld, "held: alice", 0)}, v1.StandingWaiting, "held: alice"},
		"in each phase of a migration":           {[]change{enabled, in(kubermaticv1.PhaseMachines, "1 of 3 machines are external", 0)}, v1.StandingMigrating, "1 of 3 machines are external"},
		"blocked":                                {[]change{enabled, in(kubermaticv1.PhaseBlocked, "2 findings", 0)}, v1.StandingBlocked, "2 findings"},
		"failed":                                 {[]change{enabled, in(kubermaticv1.PhaseFailed, "the handover was taken back", 0)}, v1.StandingFailed, "the handover was taken back"},
		"completed by ours":                      {[]change{enabled, in(kubermaticv1.PhaseCompleted, "done", 0)}, v1.StandingCompleted, "done"},
		"completed by the original, which is not us": {[]change{enabled, condition(kubermaticv1.ConditionCSIKubeletMigrationCompleted, true, "CSIKubeletMigrationSuccess", "", 0)}, v1.StandingCompleted, ""},
		"stuck": {[]change{enabled, in(kubermaticv1.PhaseHandover, "step 3 of 9", time.Hour), condition(kubermaticv1.ConditionStuck, true, "TooLong", "Handover takes longer than 30m", 0)},
			v1.StandingMigrating, "Handover takes longer than 30m"},
		"a phase that this version does not know": {[]change{enabled, in("Pondering", "hm", 0)}, v1.StandingWaiting, "hm"},
	} {
		t.Run(name, func(t *testing.T) {
			row := Row(cluster("a", c.changes...), false)
			if row.Standing != c.standing || row.Message != c.message {
				t.Errorf("stands %q with %q, want %q with %q", row.Standing, row.Message, c.standing, c.message)
			}
		})
	}
}

func TestARowHoldsWhatTheObjectSays(t *testing.T) {
	have := Row(cluster("crh4xbxz5f", enabled, in(kubermaticv1.PhaseMachines, "2 of 3 machines are external", time.Hour), owned(OwnersExternal),
		condition(kubermaticv1.ConditionMachines, false, "Waiting", "2 of 3 machines are external: a: not ready", 0),
		annotate(kubermaticv1.AnnotationRestartMachines, "true"), func(c *kubermaticv1.Cluster) {
			c.Spec.HumanReadableName, c.Spec.Pause, c.Spec.PauseReason = "determined-raman", true, "maintenance"
			c.Status.NamespaceName = "cluster-crh4xbxz5f"
		}), false)
	have.Conditions = nil
	want := v1.FleetCluster{
		Name:             "crh4xbxz5f",
		Group:            kubermaticv1.GroupName,
		UID:              "uid-of-cluster",
		Created:          noon.Add(-24 * time.Hour),
		HumanName:        "determined-raman",
		Namespace:        "cluster-crh4xbxz5f",
		Provider:         "aws",
		Version:          "1.26.0",
		External:         true,
		Phase:            "Machines",
		Standing:         v1.StandingMigrating,
		Since:            noon.Add(-time.Hour),
		Message:          "2 of 3 machines are external",
		Owners:           OwnersExternal,
		Machines:         &v1.FleetMachines{Migrated: 2, Total: 3},
		Paused:           "maintenance",
		RestartsMachines: true,
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("row (-want +have):\n%s", diff)
	}
}

func TestWhoRunsTheLoopsIsSaidOnlyWhenItWasSeen(t *testing.T) {
	for _, by := range []string{OwnersInTree, OwnersExternal, OwnersBoth, OwnersNone} {
		if have := Row(cluster("a", enabled, owned(by)), false).Owners; have != by {
			t.Errorf("%q instead of %q", have, by)
		}
	}
	if have := Row(cluster("a", enabled), false).Owners; have != "" {
		t.Errorf("%q, and nobody has looked", have)
	}
	unknown := cluster("a", enabled, owned(OwnersExternal))
	c := unknown.Cluster.Status.Conditions[kubermaticv1.ConditionLoopsOff]
	c.Status = "Unknown"
	unknown.Cluster.Status.Conditions[kubermaticv1.ConditionLoopsOff] = c
	if have := Row(unknown, false).Owners; have != OwnersUnknown {
		t.Errorf("%q, and the last look failed", have)
	}
}

func TestMachinesAreCountedFromTheConditionOrNotAtAll(t *testing.T) {
	for message, want := range map[string]*v1.FleetMachines{
		"0 of 0 machines are external":                {},
		"2 of 14 machines are external, 1 is deleted": {Migrated: 2, Total: 14},
		"":                                  nil,
		"all machines are fine":             nil,
		"99999999999 of 1 machines are":     nil,
		"the look failed: 2 of 3 timed out": nil,
	} {
		if diff := cmp.Diff(want, machines(message)); diff != "" {
			t.Errorf("%q (-want +have):\n%s", message, diff)
		}
	}
}

func TestAClusterUnderBothGroupsIsMarkedInBothRows(t *testing.T) {
	rows := Rows([]Object{cluster("b"), legacy(cluster("a")), cluster("a")})
	var have []string
	for _, r := range rows {
		have = append(have, keyOf(r).String())
		if r.Twice != (r.Name == "a") || r.Twice && (r.Standing != v1.StandingBlocked || !strings.Contains(r.Message, "under both groups")) {
			t.Errorf("%s: %+v", keyOf(r), r)
		}
	}
	if diff := cmp.Diff([]string{"a", "a.kubermatic.k8s.io", "b"}, have); diff != "" {
		t.Errorf("order (-want +have):\n%s", diff)
	}
}

// TestARowIsMadeOnceForEachVersion: texts are masked, and pages that are open ask for all rows at each change.
func TestARowIsMadeOnceForEachVersion(t *testing.T) {
	a, b := cluster("a"), cluster("b")
	a.Cluster.ResourceVersion, b.Cluster.ResourceVersion = "1", "" // what has no version is no object of an API
	var m Memory
	names := func(objects ...Object) (out []string) {
		for _, r := range m.Rows(objects) {
			out = append(out, r.Name+" "+r.HumanName+map[bool]string{true: " twice"}[r.Twice])
		}
		return out
	}
	change := func(o *Object, human, version string) {
		o.Cluster.Spec.HumanReadableName, o.Cluster.ResourceVersion = human, version
	}
	change(&a, "one", "1")
	change(&b, "one", "")
	first := names(a, b)
	change(&a, "two", "1")
	change(&b, "two", "")
	second := names(a, b)
	third := names(a, legacy(cluster("a")))[:1]
	change(&a, "three", "2")
	fourth := names(a)
	a.Cluster.UID = "another"
	change(&a, "four", "2")
	want := [][]string{{"a one", "b one"}, {"a one", "b two"}, {"a two twice"}, {"a three"}, {"a four"}}
	if diff := cmp.Diff(want, [][]string{first, second, third, fourth, names(a)}); diff != "" {
		t.Error(diff)
	}
	if n := len(m.rows); n != 1 {
		t.Errorf("%d rows are remembered for one cluster", n)
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	rows := Rows([]Object{
		cluster("a-done", enabled, in(kubermaticv1.PhaseCompleted, "", 0)), cluster("b-off"), cluster("c-moving", enabled, in(kubermaticv1.PhaseFinish, "", 0)),
		cluster("d-failed", enabled, in(kubermaticv1.PhaseFailed, "", 0)), cluster("e-blocked", enabled, in(kubermaticv1.PhaseBlocked, "", 0)),
		cluster("f-stuck", enabled, in(kubermaticv1.PhaseMachines, "", 0), condition(kubermaticv1.ConditionStuck, true, "", "too long", 0)),
		cluster("g-queued", enabled, in(kubermaticv1.PhaseQueued, "", 0)),
	})
	var have []string
	for _, r := range Worst(rows) {
		have = append(have, r.Name)
	}
	want := []string{"d-failed", "e-blocked", "f-stuck", "c-moving", "g-queued", "a-done", "b-off"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("order (-want +have):\n%s", diff)
	}
	const sentence = "7 clusters: 1 failed, 1 blocked, 2 migrating, 1 waiting, 1 completed, 1 not enabled"
	if have := Sentence(Summary(rows)); have != sentence {
		t.Errorf("%q", have)
	}
	if have := Sentence(Summary(rows[:1])); have != "1 cluster: 1 completed" {
		t.Errorf("%q", have)
	}
}

func TestTheDocumentOfAFleetNamesItsKindAndTime(t *testing.T) {
	have := Status([]Object{cluster("a", func(c *kubermaticv1.Cluster) { c.CreationTimestamp = metav1.Time{} })}, v1.Cluster{Context: "seed"}, noon)
	if have.Kind != v1.KindFleetStatus || !have.Time.Equal(noon) || have.Seed.Context != "seed" || len(have.Clusters) != 1 || !have.Clusters[0].Created.IsZero() {
		t.Errorf("%+v", have)
	}
}
