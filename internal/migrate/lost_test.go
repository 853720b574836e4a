package migrate

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// lose takes a host's power for good. What its node says follows when silent says so.
func (w *world) lose(name string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := os.Rename(filepath.Join(w.dir, name), filepath.Join(w.t.TempDir(), name)); err != nil {
		w.t.Fatal(err)
	}
	for key, p := range w.procs {
		if p.host == name {
			delete(w.procs, key)
		}
	}
}

// silent lets a node's controller notice that its kubelet says nothing.
func (w *world) silent(name string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var n corev1.Node
	w.api.Get(w.t, "/api/v1/nodes/node-"+name, &n)
	for i, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Status.Conditions[i].Status, n.Status.Conditions[i].LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(w.clock.Now().Add(-time.Minute))
		}
	}
	w.api.Put(w.t, &n)
	renewed := metav1.NewMicroTime(w.clock.Now().Add(-2 * time.Minute))
	w.api.Put(
		w.t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Namespace: component.NodeLeaseNamespace},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
		},
	)
}

// takeOut is apply --without-host.
func (w *world) takeOut(names ...string) error {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := journal.Before(w.t.Context(), w.kube)
	if err != nil {
		w.t.Fatal(err)
	}
	return lostnode.Exclude(
		w.t.Context(),
		step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, Scrape: w.scrape, Before: before, Clock: w.clock},
		j,
		names,
		"ops",
	)
}

// begun is a migration of hosts of which the first edit is done.
func begun(t *testing.T, hosts int) (*world, *v1.Plan) {
	t.Helper()
	w := newWorld(t, hosts)
	p, _ := w.begin()
	at := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEditManifest })
	w.past(p, p.Steps[at].ID)
	return w, p
}

func TestAHostThatIsLostForGoodIsTakenOut(t *testing.T) {
	t.Parallel()
	w, p := begun(t, 3)
	w.lose("cp-3")

	err := w.engine().Run(t.Context(), p, nil)
	lost, ok := errors.AsType[*lostnode.Error](err)
	if !ok || len(lost.Hosts) != 1 || lost.Hosts[0].Name != "cp-3" || lost.Hosts[0].Node != "node-cp-3" {
		t.Fatalf("error: %v", err)
	}
	says(t, err, "host cp-3 is out of reach (", "its node node-cp-3 is Ready", "its kubelet renewed its lease last at")
	says(
		t,
		w.takeOut("cp-3"),
		"host cp-3 stays in the migration: its node node-cp-3 is Ready, so that its managers may run and own the loops: repair the way to it; nothing was changed",
	)

	w.silent("cp-3")
	says(t, w.engine().Run(t.Context(), p, nil), "its node node-cp-3 is not Ready (Unknown) since")
	says(t, w.takeOut("cp-2"), "it can be reached: run the same command without --without-host")
	says(t, w.takeOut("cp-9"), "the plan has no host of that name (it has cp-1, cp-2, cp-3)")
	if err := w.takeOut("cp-3"); err != nil {
		t.Fatal(err)
	}
	if err := w.takeOut("cp-3"); err != nil {
		t.Errorf("excluding it again: %v", err)
	}

	err = w.engine().Run(t.Context(), p, nil)
	says(t, err, "host cp-3 was excluded from the migration, and its node node-cp-3 is still there with the flags from before", "kubectl delete node node-cp-3")
	if _, ok := errors.AsType[*step.VerifyError](err); !ok {
		t.Errorf("error: %v", err)
	}
	w.api.Delete("/api/v1/nodes/node-cp-3")
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	doc := w.engine().env.Journal.Doc()
	if len(doc.Without) != 1 || doc.Without[0].By != "ops" || len(doc.Without[0].Evidence) != 3 {
		t.Errorf("the journal: %+v", doc.Without)
	}
	for _, s := range p.Steps {
		rec := w.engine().env.Journal.Record(s.ID)
		if s.Host == "cp-3" && rec.Ended == nil || s.Host != "cp-3" && rec.Result == v1.StepResultSkipped {
			t.Errorf("step %s: %+v", s.ID, rec)
		}
	}
	if why := manager.CompareOwners(w.snapshot().Managers, p.Steps[len(p.Steps)-1].Expect); why != "" {
		t.Error(why)
	}
}

func TestAMigrationGoesBackWithoutALostHost(t *testing.T) {
	t.Parallel()
	w, _ := begun(t, 3)
	w.lose("cp-2")
	w.silent("cp-2")
	if err := w.takeOut("cp-2"); err != nil {
		t.Fatal(err)
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(h hostaccess.Host) bool { return h.Name() == "cp-2" })
	back := w.planBack()
	_, err := w.run(back)
	says(t, err, "host cp-2 was excluded from the migration", "with the flags of the migration", "kubectl delete node node-cp-2")
	w.api.Delete("/api/v1/nodes/node-cp-2")
	if _, err := w.run(back); err != nil {
		t.Fatal(err)
	}
	if why := manager.CompareOwners(w.snapshot().Managers, map[string]string{"service": component.KCM, "route": component.KCM}); why != "" {
		t.Error(why)
	}
	if text := w.read(
		"cp-1",
		manifests+"kube-controller-manager.yaml",
	) + w.read(
		"cp-3",
		manifests+"kube-controller-manager.yaml",
	); strings.Contains(
		text,
		"leader-migration",
	) {
		t.Error(text)
	}
}

// listening is the world's clock; while is what happens at each wait.
type listening struct {
	skipping
	while func()
}

func (l listening) After(d time.Duration) <-chan time.Time {
	l.while()
	return l.skipping.After(d)
}

func TestAHostIsSilentWhenItsLeaseStaysAsItIsWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		behind time.Duration // the kubelet's clock
		renews bool
	}{
		{"a live kubelet whose clock is two hours behind", 2 * time.Hour, true}, {"a live kubelet", 0, true},
		{"a dead kubelet whose clock was three hours ahead", -3 * time.Hour, false}, {"a dead kubelet", 2 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := begun(t, 3)
			w.lose("cp-3")
			w.silent("cp-3") // its node is not Ready: what it says of itself reaches the API server for a moment now and then
			renew := func() {
				renewed := metav1.NewMicroTime(w.clock.Now().Add(-c.behind))
				w.api.Put(
					t,
					&coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Name: "node-cp-3", Namespace: component.NodeLeaseNamespace},
						Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
					},
				)
			}
			renew()
			j, err := journal.Open(t.Context(), w.kube)
			if err != nil {
				t.Fatal(err)
			}
			before, err := journal.Before(t.Context(), w.kube)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			err = lostnode.Exclude(t.Context(), step.Options{
				Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, Scrape: w.scrape, Before: before, Tell: func(e step.Event) { said = append(said, e.Message) },
				Clock: listening{w.clock, func() {
					if c.renews {
						renew()
					}
				}},
			}, j, []string{"cp-3"}, "ops")
			if c.renews {
				says(
					t,
					err,
					"host cp-3 stays in the migration: its kubelet renewed its lease during this check",
					"wait until it has been silent for 40s",
					"nothing was changed",
				)
			} else if err != nil || len(j.Doc().Without) != 1 || strings.Contains(strings.Join(j.Doc().Without[0].Evidence, " "), " -") {
				t.Errorf("error %v, excluded %+v", err, j.Doc().Without)
			}
			if len(said) == 0 || said[0] != "looking for 40s whether the kubelet of node node-cp-3 renews its lease" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

func TestTooManyHostsCannotBeTakenOut(t *testing.T) {
	t.Parallel()
	w, _ := begun(t, 3)
	for _, name := range []string{"cp-2", "cp-3"} {
		w.lose(name)
		w.silent(name)
	}
	says(t, w.takeOut("cp-2", "cp-3"), "1 of 3 control-plane hosts would be left, which is no majority")
	if doc := w.engine().env.Journal.Doc(); len(doc.Without) > 0 {
		t.Errorf("the journal: %+v", doc.Without)
	}
}

func TestAHostThatMayHoldALeaseStays(t *testing.T) {
	t.Parallel()
	w, _ := begun(t, 3)
	owner := ""
	for _, h := range w.hosts {
		if strings.HasPrefix(w.holder(component.KCM), h.Name()+"_") {
			owner = h.Name()
		}
	}
	w.lose(owner)
	w.silent(owner)
	others := []string{}
	for _, h := range w.hosts {
		if h.Name() != owner {
			others = append(others, h.Name())
			w.deaf[component.KCM+"@"+h.Name()] = true // nobody can say that it leads
		}
	}
	says(t, w.takeOut(owner), "it may hold lease kube-controller-manager, and so own the loops")
	for _, name := range others {
		w.deaf[component.KCM+"@"+name] = false
	}
	if err := w.takeOut(owner); err != nil {
		t.Errorf("once another one leads: %v", err)
	}
}

func TestAHostThatWasTakenOutAndComesBack(t *testing.T) {
	t.Parallel()
	w, p := begun(t, 3)
	w.lose("cp-3")
	w.silent("cp-3")
	if err := w.takeOut("cp-3"); err != nil {
		t.Fatal(err)
	}
	var n corev1.Node
	w.api.Get(t, "/api/v1/nodes/node-cp-3", &n)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.api.Put(t, &n)
	says(t, w.engine().Run(t.Context(), p, nil), "host cp-3 was excluded from this migration, and it is back: its node node-cp-3 is Ready", "kubeadm reset")
}

func TestAStepWaitsForAHostThatComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.given(v1.Step{ID: "write/x", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/x", Content: "x", Mode: "0644"})
	aside := filepath.Join(t.TempDir(), "cp-1")
	if err := os.Rename(filepath.Join(w.dir, "cp-1"), aside); err != nil {
		t.Fatal(err)
	}
	var said []string
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventWaiting {
				said = append(said, e.Message)
			}
			if len(said) == 5 && e.Kind == step.EventWaiting {
				if err := os.Rename(aside, filepath.Join(w.dir, "cp-1")); err != nil {
					t.Error(err)
				}
			}
		}
	}).Run(t.Context(), p, nil)
	if err != nil || len(said) < 5 || !strings.HasPrefix(said[0], "the host is out of reach: reaching host cp-1: ") {
		t.Errorf("error %v; said %q", err, said)
	}
}

func TestWhyAPodDoesNotComeUpIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts  int
		owners []string
	}{
		"next to the old owner": {2, []string{"kube-controller-manager on cp-", "runs cloud-node-lifecycle, ", "service"}},
		"after it, on the only host": {1, []string{
			"kube-controller-manager on cp-1 runs nodeipam; no manager that answers runs cloud-node-lifecycle, ", "service"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			podDoesNotComeUp(t, c.hosts, c.owners)
		})
	}
}

func podDoesNotComeUp(t *testing.T, hosts int, owners []string) {
	w, p := begun(t, hosts)
	w.more = func() {
		if p := w.procs[component.CCM+"@cp-1"]; p == nil {
			return
		}
		delete(w.procs, component.CCM+"@cp-1")
		var pod corev1.Pod
		if !w.api.Get(t, "/api/v1/namespaces/kube-system/pods/"+component.CCM+"-node-cp-1", &pod) {
			return
		}
		pod.Status = corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: component.CCM, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: `Back-off pulling image "registry.example/ccm:v1"`}}}},
		}
		w.api.Put(t, &pod)
	}
	err := w.engine().Run(t.Context(), p, nil)
	planned, ok := errors.AsType[*step.StepError](err)
	if !ok || planned.Step.Kind != v1.StepAddManifest {
		t.Fatalf("error: %v", err)
	}
	says(
		t,
		err,
		"pod kube-system/cloud-controller-manager-node-cp-1 on node node-cp-1: ImagePullBackOff of image "+p.Options.Image,
		`Back-off pulling image "registry.example/ccm:v1"`,
		"transplant rollback",
	)
	says(t, err, owners...)
	if _, ok := errors.AsType[*step.VerifyError](err); !ok {
		t.Errorf("error: %v", err)
	}
	w.more = nil
	w.rollBack()
	if have := w.read("cp-1", layout.CCMManifest); have != "(absent)" {
		t.Errorf("left: %s", have)
	}
}

func TestAMinuteWithoutAnAPIServerBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.given(v1.Step{ID: "write/x", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/x", Content: "x", Mode: "0644"})
	engine := w.engine(func(o *step.Options) {
		began := w.clock.Now()
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventWaiting && !strings.HasPrefix(e.Message, "the API server does not answer: ") {
				t.Errorf("said %q", e.Message)
			}
		}
		w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
			if out := w.clock.Now().Sub(began) < time.Minute && r.URL.Path == "/api/v1/namespaces/kube-system"; out {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		}
	})
	if err := engine.Run(t.Context(), p, nil); err != nil {
		t.Errorf("error: %v", err)
	}
}

func TestAHostWhoseKubeletTookTheWayWithItIsPutBackByHandAndNotGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("cp-1", flagsFile, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws\"\n", 0o644)
	p := w.given(plainStep("cp-1"))
	aside := filepath.Join(t.TempDir(), "cp-1")
	_, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, _ string) {
			if point == "during" {
				if err := os.Rename(filepath.Join(w.dir, "cp-1"), aside); err != nil {
					t.Error(err)
				}
			}
		}
	})
	says(t, err, "host cp-1 is out of reach")

	var said []string
	_, err = w.run(p, func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventProgress {
				said = append(said, e.Message)
			}
		}
	})
	says(t, err, "waiting 2m0s for the host", "To put it back, run there as root:\n    echo '", " | sha256sum -c && cp ", " "+flagsFile+"\n")
	lost, ok := errors.AsType[*lostnode.Error](err)
	if !ok || len(lost.Hosts) != 1 || !strings.Contains(lost.Hosts[0].Alive, "is Ready") {
		t.Errorf("its node lives, and the error is %#v", lost)
	}
	if len(said) != 1 || !strings.Contains(said[0], "To put it back, run there as root") {
		t.Errorf("while it waited it said %q", said)
	}

	if err := os.Rename(aside, filepath.Join(w.dir, "cp-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(p); err != nil {
		t.Errorf("when the host is back: %v", err)
	}
}
