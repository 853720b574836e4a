package trial

import (
	"flag"
	"slices"
	"strings"
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
		var at []string
		for i, s := range steps(t, lab) {
			for _, point := range pointsOf(i, s) {
				at = append(at, point+":"+s.ID)
			}
		}
		killedAtEach(t, lab, at, apply())
		cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
		if err := lab.Check(cloud); err != nil {
			t.Error(err)
		}
		killedAtEach(t, lab, restarts(t, lab), []string{"rollback", "--yes", "--cloud", Cloud})
		cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	})
	unchanged(t, lab, before)
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

// restarts are points in the middle of each restart of a rollback.
func restarts(t *testing.T, lab *Trial) []string {
	t.Helper()
	var out []string
	for _, h := range lab.ControlPlanes() {
		for _, step := range []string{"undo/finish/cloud-controller-manager", "undo/external/kube-controller-manager", "undo/start/cloud-controller-manager",
			"undo/leader-migration/kube-controller-manager", "undo/external/kube-apiserver"} {
			out = append(out, "during:"+step+"@"+h.Name)
		}
	}
	return out
}

// killedAtEach runs a command again and again, until it has died once at each of the points and comes to its end.
func killedAtEach(t *testing.T, lab *Trial, at []string, args []string) {
	t.Helper()
	begin := len(at)
	for {
		r, err := lab.CLI(t.Context(), nil, []string{"TRANSPLANT_TEST_KILL=" + strings.Join(at, ",")}, args...)
		if err != nil {
			t.Fatal(err)
		}
		_, point, died := strings.Cut(r.Stderr, "\nkilled at ")
		point, _, _ = strings.Cut(point, "\n")
		switch {
		case r.Code == -1 && died && slices.Contains(at, point):
			at = slices.DeleteFunc(at, func(p string) bool { return p == point })
		case r.Code == 0:
			if len(at) > 0 {
				t.Errorf("these points were never reached: %v", at)
			}
			t.Logf("%s was killed %d times", args[0], begin-len(at))
			return
		default:
			t.Fatalf("%s ended with exit code %d\n%s", args[0], r.Code, tail(r.Stderr, 30))
		}
	}
}
