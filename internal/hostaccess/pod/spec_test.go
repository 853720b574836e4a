package pod

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/holder"
)

var update = flag.Bool("update", false, "write the golden files")

func TestThePodsAndTheirJobAreWhatWasReviewed(t *testing.T) {
	look := spec{Name: "transplant-look-0badcafe-1", Namespace: "kube-system", Node: "cp-1", Image: "image:v1", Run: "0badcafe", Job: "uid", Idle: 4 * time.Minute}
	frozen := look
	frozen.Frozen = true
	change := look
	change.Name, change.Change, change.Purpose, change.Parts = "transplant-change-0badcafe-2", true, "external/kcm@cp-1", []string{
		"/etc/kubernetes",
		"/var/lib/kubelet",
	}
	service := change
	service.Service = true
	for name, object := range map[string]any{
		"look": build(look), "look-frozen": build(frozen), "change": build(change), "change-service": build(service),
		"job": job("kube-system", "0badcafe", "image:v1", "ops@bastion pid=1", 10*time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			have, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, have, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(have)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWhoseTimeHasPassed(t *testing.T) {
	made := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](600)}}
	for after, want := range map[time.Duration]bool{0: false, 10*time.Minute + 59*time.Second: false, 11*time.Minute + time.Second: true} {
		if got := isExpired(j, made.Add(after)); got != want {
			t.Errorf("%s after it was made: %v", after, got)
		}
	}
	if isExpired(j, time.Time{}) {
		t.Error("without knowing the time, nothing has passed")
	}
}

func TestOnlyWhatIsDeadIsSweptAway(t *testing.T) {
	c := newCluster(t, "cp-1")
	alive := holder.This("ops")
	dead := alive
	dead.PID, dead.Start = 1<<22+1, "1"
	for run, h := range map[string]string{"alive": alive.String(), "dead": dead.String(), "far": "ops@elsewhere pid 1 start=1 boot=x pidns=y"} {
		if _, err := c.kube.BatchV1().
			Jobs("kube-system").
			Create(t.Context(), job("kube-system", run, "image", h, 10*time.Minute), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := build(spec{Name: "transplant-look-" + run, Namespace: "kube-system", Node: "cp-1", Image: "image", Run: run})
		if _, err := c.kube.CoreV1().Pods("kube-system").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, closing, err := Open(t.Context(), Options{Kube: c.kube, Image: "image", exec: c.exec})
	if err != nil {
		t.Fatal(err)
	}
	if err := closing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"transplant-look-alive", "transplant-look-far"}, c.pods()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
