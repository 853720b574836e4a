package faults

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRandomFaultsAreTheSeedsOwn(t *testing.T) {
	var steps []string
	for i := range 400 {
		steps = append(steps, fmt.Sprintf("edit/%d@cp-1", i), fmt.Sprintf("create/%d", i))
	}
	draw := func(seed uint64) (all []Fault) {
		choose := Random(seed, 0.5, Whole)
		for _, step := range steps {
			all = append(all, choose(step, hostOf(step, []string{"cp-1"}))...)
		}
		return all
	}
	first := draw(1)
	if diff := cmp.Diff(first, draw(1)); diff != "" {
		t.Errorf("the same seed gives other faults:\n%s", diff)
	}
	if cmp.Equal(first, draw(2)) {
		t.Error("another seed gives the same faults")
	}
	if share := float64(len(first)) / float64(len(steps)); share < 0.4 || share > 0.6 {
		t.Errorf("%d of %d steps have a fault, want about half of them", len(first), len(steps))
	}
	kinds, points := map[Kind]int{}, map[string]int{}
	for _, f := range first {
		kinds[f.Kind]++
		points[f.Point]++
		switch f.Kind {
		case AccessLost, DiskFull, Rebooted, InstanceStopped:
			if f.Host == "" {
				t.Errorf("%s at %s, which has no host", f.Kind, f.Step)
			}
		case ManagersFrozen:
			if f.For < Whole.Frozen/2 || f.For > 2*Whole.Frozen {
				t.Errorf("%s lasts %s", f.Kind, f.For)
			}
		case CloudThrottled, CloudFailing, CloudGone:
			if f.For < Whole.Cloud/2 || f.For > 2*Whole.Cloud {
				t.Errorf("%s lasts %s", f.Kind, f.For)
			}
		case APIGone, APIFrozen:
			if f.For < Whole.ShortOutage/2 || f.For > 2*Whole.ShortOutage {
				t.Errorf("%s lasts %s", f.Kind, f.For)
			}
		default:
		}
	}
	if len(kinds) != 1+len(OfTheCluster)+len(OfTheOperator)+len(OfTheSurroundings) || len(points) != 3 {
		t.Errorf("kinds %v, points %v: some never happen", kinds, points)
	}
}
