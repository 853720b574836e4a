package trial

import (
	"flag"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var everyPoint = flag.Bool("lab.every-point", false, "kill the command line before, during and after every step, not at one of them")

// points are where a step can be killed: before it, between the record of what it does and its doing, and after it.
var points = []string{"before", "during", "after"}

// SIGKILL at every step, the next run goes on, and the end is the same. Chained through one migration and one rollback.
func TestAKilledCommandIsGoneOnWith(t *testing.T) {
	lab := theLab(t)
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	watched(t, lab, func() {
		kills := 0
		for i, s := range steps(t, lab) {
			for _, point := range pointsOf(i, s) {
				kills += killed(t, lab, point+":"+s.ID, apply())
			}
		}
		t.Logf("killed %d times", kills)
		if kills < 40 {
			t.Errorf("only %d kills hit: the points are not reached", kills)
		}
		cli(t, lab, 0, nil, apply()...)
		cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
		if err := lab.Check(cloud); err != nil {
			t.Error(err)
		}
		rollbackWithKills(t, lab)
	})
	unchanged(t, lab, before)
}

// rollbackWithKills kills the rollback in the middle of each of its restarts.
func rollbackWithKills(t *testing.T, lab *Trial) {
	t.Helper()
	for _, component := range []string{"kube-controller-manager", "cloud-controller-manager"} {
		for _, host := range []string{"cp-1", "cp-2", "cp-3"} {
			for _, step := range []string{"undo/external/", "undo/start/", "undo/leader-migration/"} {
				killed(t, lab, "during:"+step+component+"@"+host, []string{"rollback", "--yes", "--cloud", Cloud})
			}
		}
	}
	cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
}

// pointsOf spreads the points over the steps; steps that only look have no point, since they are done before they begin.
func pointsOf(i int, s v1.Step) []string {
	switch {
	case s.Kind == v1.StepVerify:
		return nil
	case *everyPoint:
		return points
	case s.Kind == v1.StepEditManifest || s.Kind == v1.StepAddManifest:
		return points[1:2]
	}
	return points[i%len(points) : i%len(points)+1]
}

// killed runs a command that is killed at a point. A run that ended by itself reached its end without passing the point, since the order of the
// groups depends on who owns the loops; it counts as none.
func killed(t *testing.T, lab *Trial, at string, args []string) int {
	t.Helper()
	r, err := lab.CLI(t.Context(), nil, []string{"TRANSPLANT_TEST_KILL=" + at}, args...)
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Code == 0:
		return 0
	case r.Code != -1:
		t.Fatalf("killed at %s: exit code %d\n%s", at, r.Code, tail(r.Stderr, 30))
	}
	return 1
}
