package view

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

func sizes(waves []v1.FleetWave) string {
	var out []string
	for _, w := range waves {
		out = append(out, fmt.Sprintf("%s:%d", w.Upto, len(w.Clusters)))
	}
	return strings.Join(out, " ")
}

func TestWavesGrowToWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		clusters int
		waves    string
		want     string
		left     int
	}{
		{25, "1,10%,50%,100%", "1:1 10%:2 50%:10 100%:12", 0},
		{500, "1,10%,50%,100%", "1:1 10%:49 50%:200 100%:250", 0},
		{1, "1,10%,50%,100%", "1:1", 0},
		{0, "1,100%", "", 0},
		{10, "50%", "50%:5", 5},
		{10, "5,3,100%", "5:5 100%:5", 0}, // a wave that adds nobody is none
		{3, "10%,100%", "10%:1 100%:2", 0},
		{7, "100", "100:7", 0},
	} {
		waves, left, err := Waves(fleet(c.clusters), nil, options(func(o *v1.FleetOptions) { o.Waves = strings.Split(c.waves, ",") }))
		if err != nil || sizes(waves) != c.want || len(left) != c.left {
			t.Errorf("%d clusters in %s: %s, %d left, %v", c.clusters, c.waves, sizes(waves), len(left), err)
		}
	}
}

func TestChoicesThatAreNoneAreNamed(t *testing.T) {
	for words, change := range map[string]func(*v1.FleetOptions){
		`wave "0"`:                      func(o *v1.FleetOptions) { o.Waves = []string{"0"} },
		`wave "101%"`:                   func(o *v1.FleetOptions) { o.Waves = []string{"101%"} },
		`wave "ten"`:                    func(o *v1.FleetOptions) { o.Waves = []string{"ten"} },
		"waves: give at least one":      func(o *v1.FleetOptions) { o.Waves = nil },
		"max parallel 0":                func(o *v1.FleetOptions) { o.MaxParallel = 0 },
		"max failures -1":               func(o *v1.FleetOptions) { o.MaxFailures = -1 },
		`until "later" is not known`:    func(o *v1.FleetOptions) { o.Until = "later" },
		"a duration of 0 or more":       func(o *v1.FleetOptions) { o.SoakSeconds = -1 },
		"there is no cluster ghost, no": func(o *v1.FleetOptions) { o.First, o.Except = []string{"ghost"}, []string{"no", "c000"} },
	} {
		if _, _, err := Waves(fleet(3), nil, options(change)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func TestWhoIsLeftOutAndWhy(t *testing.T) {
	rows := Rows([]Object{
		cluster("twice"), legacy(cluster("twice")),
		cluster("external", func(c *kubermaticv1.Cluster) { c.Spec.Features = map[string]bool{"externalCloudProvider": true} }),
		cluster("deleted", func(c *kubermaticv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: noon} }),
		cluster("paused", func(c *kubermaticv1.Cluster) { c.Spec.Pause, c.Spec.PauseReason = true, "moved" }),
		cluster("held", enabled, annotate(kubermaticv1.AnnotationHold, "alice: after the sale"), in(kubermaticv1.PhaseHeld, "", 0)),
		cluster("held-by-us", enabled, annotate(kubermaticv1.AnnotationHold, "transplant fleet: not before its wave"), in(kubermaticv1.PhaseHeld, "", 0)),
		cluster("held-and-off", annotate(kubermaticv1.AnnotationHold, "")),
		cluster("refused"), cluster("unwanted"),
		cluster("plain"), cluster("underway", enabled, annotate(kubermaticv1.AnnotationHold, "bob"), in(kubermaticv1.PhaseHandover, "", 0)),
	})
	refusals := Refusals{{kubermaticv1.GroupName, "refused"}: {"vSphere 1.22 has no CSI driver"}, {kubermaticv1.GroupName, "underway"}: {"too late"}}
	waves, left, err := Waves(rows, refusals, options(func(o *v1.FleetOptions) { o.Waves, o.Except = []string{"100%"}, []string{"unwanted"} }))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, l := range left {
		have[l.Name+" "+l.Group[:14]] = l.Reason
	}
	want := map[string]string{
		"twice kubermatic.k8c":        "there is a Cluster of this name under both groups",
		"twice kubermatic.k8s":        "there is a Cluster of this name under both groups",
		"external kubermatic.k8c":     "it was made with the external provider",
		"deleted kubermatic.k8c":      "it is being deleted",
		"paused kubermatic.k8c":       "it is paused: moved",
		"held kubermatic.k8c":         "it is held: alice: after the sale",
		"held-and-off kubermatic.k8c": "it is held: held",
		"refused kubermatic.k8c":      "refused: vSphere 1.22 has no CSI driver",
		"unwanted kubermatic.k8c":     "left out by --except",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("left (-want +have):\n%s", diff)
	}
	do := map[string]string{}
	for _, m := range waves[0].Clusters {
		do[m.Name] = m.Do
	}
	if diff := cmp.Diff(map[string]string{"held-by-us": v1.FleetRelease, "plain": v1.FleetEnable, "underway": ""}, do); diff != "" {
		t.Errorf("members (-want +have):\n%s", diff)
	}
	_, left, err = Waves(rows, nil, options(func(o *v1.FleetOptions) { o.Waves, o.ReleaseHolds = []string{"100%"}, true }))
	if err != nil || slices.ContainsFunc(left, func(l v1.FleetLeft) bool { return strings.HasPrefix(l.Name, "held") }) {
		t.Errorf("holds are released, and held clusters are left out: %v, %v", left, err)
	}
}

// TestEveryClusterIsInOneWaveOrLeft, whatever the fleet and the choices are; and the same choices give the same waves, in whatever order the clusters come.
func TestEveryClusterIsInOneWaveOrLeft(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		rows, o := anyFleet(r, r.IntN(60)), anyOptions(r)
		waves, left, err := Waves(rows, nil, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		seen := map[Key]int{}
		for i, w := range waves {
			if w.Number != i+1 || len(w.Clusters) == 0 {
				t.Fatalf("seed %d: wave %d has the number %d and %d clusters", seed, i+1, w.Number, len(w.Clusters))
			}
			for _, m := range w.Clusters {
				seen[Key{m.Group, m.Name}]++
			}
		}
		for _, l := range left {
			seen[Key{l.Group, l.Name}]++
		}
		for _, row := range rows {
			if seen[keyOf(row)] != 1 {
				t.Fatalf("seed %d: %s is there %d times", seed, keyOf(row), seen[keyOf(row)])
			}
		}
		shuffled := slices.Clone(rows)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, leftAgain, err := Waves(shuffled, nil, o)
		if diff := cmp.Diff(waves, again); diff != "" || err != nil || len(left) != len(leftAgain) {
			t.Fatalf("seed %d: another order gives other waves: %s, %v", seed, diff, err)
		}
	}
}

func TestANewClusterChangesNoWaveOfNumbersBeforeItsOwn(t *testing.T) {
	o := options(func(o *v1.FleetOptions) { o.Waves = []string{"2", "5", "100%"} })
	before, _, err := Waves(fleet(8), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := Waves(
		append(fleet(8), Row(cluster("aaa", func(c *kubermaticv1.Cluster) { c.CreationTimestamp = metav1.NewTime(noon.Add(48 * time.Hour)) }), false)),
		nil,
		o,
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before[:2], after[:2]); diff != "" || len(after[2].Clusters) != 4 {
		t.Errorf("waves changed (-before +after):\n%s", diff)
	}
}

func TestNamesThatComeFirstDo(t *testing.T) {
	waves, _, err := Waves(fleet(20), nil, options(func(o *v1.FleetOptions) { o.First = []string{"c017", "c003"} }))
	if err != nil {
		t.Fatal(err)
	}
	if have := waves[0].Clusters[0].Name + waves[1].Clusters[0].Name + waves[2].Clusters[0].Name; have != "c017c003c000" {
		t.Errorf("the order is %s", have)
	}
}

func TestTheRulesRefuseWhatCannotBeMigrated(t *testing.T) {
	in := func(provider string) Object {
		return cluster(provider, func(c *kubermaticv1.Cluster) { c.Spec.Cloud.ProviderName = provider })
	}
	have := Refused([]Object{in("aws"), in("hetzner"), in("nutanix")}, rules.Facts{})
	key := func(name string) Key { return Key{kubermaticv1.GroupName, name} }
	if len(have) != 2 || have[key("hetzner")][0] != "Hetzner Cloud was never an in-tree provider: there is nothing to migrate" ||
		!strings.Contains(strings.Join(have[key("nutanix")], ""), "not supported") {
		t.Errorf("%v", have)
	}
	if o := in("aws"); len(RefusedOne(o, rules.Facts{})) > 0 || o.Cluster.Spec.Features != nil {
		t.Errorf("asking changed the cluster: %+v", o.Cluster.Spec)
	}
}

func TestSelectingRows(t *testing.T) {
	rows := Rows([]Object{cluster("a"), cluster("b", func(c *kubermaticv1.Cluster) { c.Spec.Cloud.ProviderName = "gcp" }), cluster("c")})
	names := func(rows []v1.FleetCluster) (out string) {
		for _, r := range rows {
			out += r.Name
		}
		return out
	}
	if have := []string{
		names(Select(rows, nil, nil)),
		names(Select(rows, []string{"aws"}, nil)),
		names(Select(rows, []string{"aws"}, []string{"b", "c"})),
		names(Select(rows, []string{"azure"}, nil)),
	}; !slices.Equal(
		have,
		[]string{"abc", "ac", "c", ""},
	) {
		t.Errorf("%q", have)
	}
}

func anyFleet(r *rand.Rand, n int) []v1.FleetCluster {
	var objects []Object
	for i := range n {
		o := cluster(fmt.Sprintf("c%d", i), func(c *kubermaticv1.Cluster) {
			c.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(r.IntN(10)) * time.Minute))
			c.Spec.Pause = r.IntN(10) == 0
		})
		if r.IntN(2) == 0 {
			enabled(o.Cluster)
			phases := []string{
				"",
				kubermaticv1.PhaseQueued,
				kubermaticv1.PhaseHeld,
				kubermaticv1.PhaseBlocked,
				kubermaticv1.PhaseMachines,
				kubermaticv1.PhaseCompleted,
				kubermaticv1.PhaseFailed,
			}
			if p := phases[r.IntN(len(phases))]; p != "" {
				in(p, "", time.Hour)(o.Cluster)
			}
		}
		if r.IntN(8) == 0 {
			annotate(kubermaticv1.AnnotationHold, []string{"", "alice", "transplant fleet"}[r.IntN(3)])(o.Cluster)
		}
		if r.IntN(5) == 0 {
			o = legacy(o)
		}
		objects = append(objects, o)
		if r.IntN(12) == 0 {
			objects = append(objects, legacy(cluster(o.Cluster.Name)))
			objects[len(objects)-2].Group = kubermaticv1.GroupName
		}
	}
	return Rows(objects)
}

func anyOptions(r *rand.Rand) v1.FleetOptions {
	return options(func(o *v1.FleetOptions) {
		o.Waves = nil
		for range 1 + r.IntN(4) {
			w := fmt.Sprint(1 + r.IntN(100))
			if r.IntN(2) == 0 {
				w += "%"
			}
			o.Waves = append(o.Waves, w)
		}
		o.MaxParallel, o.MaxFailures, o.ReleaseHolds = 1+r.IntN(8), r.IntN(3), r.IntN(2) == 0
		o.SoakSeconds = float64(r.IntN(2) * 600)
	})
}
