package migrate

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// toCSI is a step whose node had no volume mounted when the plan was made.
func toCSI(gates string) v1.Step {
	s := kubeletStep()
	s.Drain = false
	if gates != "" {
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "feature-gates", Value: gates})
		s.Changes = []v1.Change{{Field: "--feature-gates", Before: strings.ReplaceAll(gates, "=true", "=false"), After: gates}}
	}
	return s
}

// mounted shows a volume in the status of the host's node, and unmounts it when the node has no pods to drain any longer.
func (w *world) mounted(volume string, evicted func() []string) {
	w.changeNode("cp-1", func(n *corev1.Node) {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{corev1.UniqueVolumeName(volume)}
	})
	w.more = func() {
		if len(evicted()) > 0 {
			w.changeNode("cp-1", func(n *corev1.Node) { n.Status.VolumesInUse = nil })
		}
	}
}

// A drained pod takes its volume to a node that the plan does not drain, since it had none when the plan was made. CSI cannot unmount what it did not mount.
func TestANodeThatGotAVolumeSinceThePlanIsDrained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, gates, volume string
		drained             bool
	}{
		{"of the plugin", "CSIMigrationAWS=true", "kubernetes.io/aws-ebs/aws://us-east-1a/vol-1", true},
		{"of the plugin, by the gate of all", "CSIMigration=true", "kubernetes.io/aws-ebs/aws://us-east-1a/vol-1", true},
		{"of a driver", "CSIMigrationAWS=true", "kubernetes.io/csi/ebs.csi.aws.com^vol-1", false},
		{"that stays in tree", "", "kubernetes.io/aws-ebs/aws://us-east-1a/vol-1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			evicted := w.drainable(0)
			w.mounted(c.volume, evicted)
			var told []string
			_, err := w.run(w.given(toCSI(c.gates)), func(o *step.Options) {
				o.Tell = func(e step.Event) { told = append(told, e.Message) }
				o.Hook = func(point, _ string) {
					if n := w.node("cp-1"); point == "during" && c.drained && (len(n.Status.VolumesInUse) > 0 || !n.Spec.Unschedulable) {
						t.Errorf("the kubelet is changed with %v in use, unschedulable: %v", n.Status.VolumesInUse, n.Spec.Unschedulable)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if have := len(evicted()) > 0; have != c.drained || w.node("cp-1").Spec.Unschedulable {
				t.Errorf("drained: %v (%v), unschedulable: %v", have, evicted(), w.node("cp-1").Spec.Unschedulable)
			}
			if said := strings.Contains(strings.Join(told, "\n"), "drained, which the plan did not foresee: "+c.volume); said != c.drained {
				t.Errorf("told: %q", told)
			}
		})
	}
}

// A drain that was interrupted is ended by the next run, which finds no volume on the node any longer.
func TestADrainThatThePlanDidNotHaveSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	evicted := w.drainable(0)
	w.mounted("kubernetes.io/aws-ebs/aws://us-east-1a/vol-1", evicted)
	w.afterEveryDeath(w.given(toCSI("CSIMigrationAWS=true")))
	if len(evicted()) == 0 || w.node("cp-1").Spec.Unschedulable {
		t.Errorf("evicted %v, unschedulable: %v", evicted(), w.node("cp-1").Spec.Unschedulable)
	}
}

// A volume that is on its way to a node is not in the node's status yet. On the way back it is the driver's there, and the plugin takes it again.
func TestANodeWithAPodOfAnInTreeVolumeIsDrained(t *testing.T) {
	t.Parallel()
	inTree := corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"}}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}}
	for _, c := range []struct {
		name    string
		pod     string
		source  corev1.PersistentVolumeSource
		back    bool
		drained bool
	}{
		{"there", "node-cp-1", inTree, false, true},
		{"there, of the driver", "node-cp-1", csi, false, false},
		{"there, elsewhere", "elsewhere", inTree, false, false},
		{"back", "node-cp-1", inTree, true, true},
		{"back, of the driver", "node-cp-1", csi, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.kubeletRuns("cp-1")
			p := w.given(toCSI("CSIMigrationAWS=true"))
			if c.back {
				if _, err := w.run(p); err != nil {
					t.Fatal(err)
				}
			}
			evicted := w.drainable(0)
			yes := true
			user := readyPod("user", true, &yes)
			user.Spec.NodeName = c.pod
			user.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
			w.api.Put(
				t,
				user,
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: c.source}},
				&corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: user.Namespace}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
				},
			)
			if c.back {
				w.backAfterEveryDeath()
			} else {
				w.afterEveryDeath(p)
			}
			if have := slices.Contains(evicted(), "user"); have != c.drained || w.node("cp-1").Spec.Unschedulable {
				t.Errorf("drained: %v (%v), unschedulable: %v", have, evicted(), w.node("cp-1").Spec.Unschedulable)
			}
		})
	}
}

// A node that nothing drains takes no pods while its kubelet changes: one of them could bring a volume in the meantime.
func TestANodeTakesNoPodsWhileItsKubeletLeavesVolumesToCSI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	evicted := w.drainable(0)
	_, err := w.run(w.given(toCSI("CSIMigrationAWS=true")), func(o *step.Options) {
		o.Hook = func(point, _ string) {
			if point == "during" && !w.node("cp-1").Spec.Unschedulable {
				t.Error("it takes pods")
			}
		}
	})
	if err != nil || len(evicted()) > 0 || w.node("cp-1").Spec.Unschedulable {
		t.Errorf("error %v, evicted %v, unschedulable: %v", err, evicted(), w.node("cp-1").Spec.Unschedulable)
	}
}

// The attach-detach controller has a name for a volume by each mounter. A pod that came back to its node before the detachment would lose it by the old name.
func TestAKubeletChangesItsMounterWhenTheVolumesAreDetached(t *testing.T) {
	t.Parallel()
	name := corev1.UniqueVolumeName("kubernetes.io/aws-ebs/aws://us-east-1a/vol-1")
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"},
		}},
	}
	for _, drains := range []bool{true, false} {
		w := newWorld(t, 1)
		w.kubeletRuns("cp-1")
		w.drainable(0)
		there := toCSI("CSIMigrationAWS=true")
		there.Drain = drains
		attached := true
		detaches := func(detach func()) func(*step.Options) {
			looks := 0
			w.more = func() {
				if looks++; looks == 60 {
					attached = false
					detach()
				}
			}
			return func(o *step.Options) {
				o.Hook = func(point, of string) {
					if point == "during" && attached {
						t.Errorf("drains %v: %s changes the kubelet while the volume is attached", drains, of)
					}
				}
			}
		}
		w.changeNode("cp-1", func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}} })
		if _, err := w.run(w.given(there), detaches(func() {
			w.changeNode("cp-1", func(n *corev1.Node) { n.Status.VolumesAttached = nil })
		})); err != nil || attached {
			t.Fatalf("drains %v: %v, attached: %v", drains, err, attached)
		}
		attached = true
		va := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "ebs.csi.aws.com", NodeName: "node-cp-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
			},
		}
		w.api.Put(t, pv, va)
		hook := detaches(func() { w.api.Delete("/apis/storage.k8s.io/v1/volumeattachments/csi-1") })
		w.backThrough(hook)
		if attached || w.node("cp-1").Spec.Unschedulable {
			t.Errorf("drains %v: attached: %v, unschedulable: %v", drains, attached, w.node("cp-1").Spec.Unschedulable)
		}
	}
}

// backThrough takes everything back without a death on the way.
func (w *world) backThrough(options ...func(*step.Options)) {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	doc := j.Doc()
	p, err := rollback.Make(&doc, w.snapshot(), w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepVerify })
	if err := j.SetPhase(w.t.Context(), v1.RunRollingBack, p, nil); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.run(p, options...); err != nil {
		w.t.Fatal(err)
	}
}
