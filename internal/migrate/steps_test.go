package migrate

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const kcmManifest = manifests + "kube-controller-manager.yaml"

// run executes the whole plan and returns the step that failed and why.
func (w *world) run(p *v1.Plan, change ...func(*step.Options)) (planned string, err error) {
	w.t.Helper()
	err = w.engine(change...).Run(w.t.Context(), p, nil)
	var s *step.StepError
	if errors.As(err, &s) {
		planned = s.Step.ID
	}
	return planned, err
}

func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, which should say %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestAStalePlanNamesWhatChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*world)
		want   []string
	}{
		{"an argument of a manifest", func(w *world) {
			w.write("cp-2", kcmManifest, strings.Replace(w.read("cp-2", kcmManifest), "--cluster-name=lab", "--cluster-name=other", 1), 0o600)
		}, []string{kcmManifest + " on host cp-2 was changed outside this migration (+ --cluster-name=other, - --cluster-name=lab)"}},
		{"a manifest next to its arguments", func(w *world) {
			w.write("cp-2", kcmManifest, strings.Replace(w.read("cp-2", kcmManifest), "v1.26.0", "v1.26.1", 1), 0o600)
		}, []string{kcmManifest + " on host cp-2 was changed outside this migration: something other than its arguments"}},
		{"a manifest that is gone", func(w *world) { w.remove("cp-2", kcmManifest) }, []string{kcmManifest + " on host cp-2 was changed outside this migration: it is gone"}},
		{"a manifest that is no YAML", func(w *world) { w.write("cp-1", kcmManifest, "{", 0o600) }, []string{"on host cp-1 was changed outside this migration: its SHA-256 is "}},
		{"a file that was absent", func(w *world) { w.write("cp-1", layout.CCMManifest, "x", 0o600) }, []string{layout.CCMManifest + " on host cp-1 was changed outside this migration: its SHA-256 is "}},
		{"two things at once", func(w *world) {
			w.write("cp-1", "/etc/kubernetes/cloud.conf", "[Global]\n", 0o644)
			w.remove("cp-2", "/var/lib/kubelet/kubeadm-flags.env")
		}, []string{"/etc/kubernetes/cloud.conf on host cp-1", "/var/lib/kubelet/kubeadm-flags.env on host cp-2 was changed outside this migration: it is gone"}},
		{"another cluster", func(w *world) {
			w.api.Delete("/api/v1/namespaces/kube-system")
			w.api.Put(w.t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "another"}})
		}, []string{"this is another cluster: its uid is another, the plan was made for cluster-uid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			p, err := plan.Make(w.snapshot(), v1.Options{}, nil, w.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := precondition.Preflight(t.Context(), step.Options{Kube: w.kube, Hosts: w.hosts}, p); err != nil {
				t.Fatalf("nothing has changed: %v", err)
			}
			c.change(w)
			err = precondition.Preflight(t.Context(), step.Options{Kube: w.kube, Hosts: w.hosts}, p)
			says(t, err, c.want...)
			var stale *step.StaleError
			if !errors.As(err, &stale) {
				t.Errorf("it is no StaleError: %v", err)
			}
			if writes := w.api.Writes(); len(writes) > 0 {
				t.Errorf("something was written: %v", writes)
			}
		})
	}
}

func (w *world) remove(host, path string) {
	w.t.Helper()
	if err := os.Remove(w.at(host, path)); err != nil {
		w.t.Fatal(err)
	}
}

func TestAManifestThatSomebodyChangesDuringTheMigration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	edited := false
	step, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if !edited && point == "after" && strings.HasPrefix(id, "leader-migration/") && strings.HasSuffix(id, "@cp-1") {
				edited = true
				w.write(
					"cp-1",
					manifests+"kube-apiserver.yaml",
					strings.Replace(w.read("cp-1", manifests+"kube-apiserver.yaml"), "--bind-address=127.9.9.1", "--bind-address=127.9.9.3", 1),
					0o600,
				)
			}
		}
	})
	says(t, err, "the plan is stale", "+ --bind-address=127.9.9.3, - --bind-address=127.9.9.1")
	if step != "external/"+component.KAS+"@cp-1" {
		t.Errorf("it was noticed in step %s", step)
	}
	if w.engine().env.Journal.Record(step).Result != "" {
		t.Error("the step is written down as begun")
	}
}

func TestAnObjectOfAnotherContentIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	theirs := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: layout.CCMRole},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	w.api.Put(t, theirs)
	p, _ := w.begin()
	step, err := w.run(p)
	says(t, err, "ClusterRole/"+layout.CCMRole+" exists and has another content", "rename or delete it")
	if step != "create/ClusterRole/"+layout.CCMRole {
		t.Errorf("step %s", step)
	}
	w.rollBack()
	var have rbacv1.ClusterRole
	if !w.api.Get(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+layout.CCMRole, &have) || len(have.Rules) != 1 {
		t.Errorf("somebody else's object was deleted or changed: %+v", have)
	}
}

func TestAnObjectThatWasThereStaysAfterARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace}})
	p, _ := w.begin()
	w.past(p, "write/"+layout.CCMKubeconfig+"@cp-1")
	w.rollBack()
	var have corev1.ServiceAccount
	if !w.api.Get(t, "/api/v1/namespaces/kube-system/serviceaccounts/"+layout.CCMAccount, &have) {
		t.Error("what was there before is deleted")
	}
	if w.api.Get(t, "/api/v1/namespaces/kube-system/secrets/"+layout.TokenSecret, &corev1.Secret{}) {
		t.Error("what the migration made is left")
	}
}

func TestNoPermissionForAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.api.Deny("create", "clusterroles")
	_, err := w.run(p)
	says(t, err, "creating ClusterRole/"+layout.Observer, `cannot create resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope`)
}

func TestAReadOnlyDirectoryLeavesNothingHalfWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root writes into read-only directories")
	}
	w := newWorld(t, 2)
	p, _ := w.begin()
	if err := os.Chmod(w.at("cp-1", "/etc/kubernetes/manifests"), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(w.at("cp-1", "/etc/kubernetes/manifests"), 0o700) })
	before := w.read("cp-1", kcmManifest)
	step, err := w.run(p)
	says(t, err, kcmManifest, `host "cp-1"`, "permission denied")
	if after := w.read("cp-1", kcmManifest); after != before {
		t.Errorf("step %s wrote: %s", step, after)
	}
}

func TestAFullDiskStopsBeforeTheOwnerDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	var files map[string]string
	step, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "before" && id == "leader-migration/"+component.KCM+"@cp-1" {
				w.full["cp-1"], files = true, w.files()
			}
		}
	})
	says(t, err, "backing "+kcmManifest+" up on host cp-1", "no space left on device")
	if step != "leader-migration/"+component.KCM+"@cp-1" {
		t.Errorf("step %s", step)
	}
	if diff := cmp.Diff(files, w.files()); diff != "" {
		t.Errorf("files were changed:\n%s", diff)
	}
	w.full = map[string]bool{}
	w.past(p, step)
}

func TestAFileInTheWayOfADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.write("cp-2", layout.Dir, "a file where a directory is to be", 0o600)
	p, _ := w.begin()
	files := w.files()
	step, err := w.run(p)
	if !strings.HasPrefix(step, "write/"+layout.Dir) || !strings.HasSuffix(step, "@cp-2") {
		t.Errorf("step %s", step)
	}
	says(t, err, layout.KCMMigration, "cp-2")
	now := w.files()
	for name, content := range files {
		if now[name] != content {
			t.Errorf("%s was changed to %s", name, now[name])
		}
	}
	for name := range now {
		if _, ok := files[name]; !ok && strings.HasPrefix(name, "/cp-2") {
			t.Errorf("%s was left behind", name)
		}
	}
	// The record of the failed step lets the next run go on.
	rec := w.engine().env.Journal.Record(step)
	if rec.Result != "" && (rec.Result != v1.StepResultStarted || rec.Error == "") {
		t.Errorf("record %+v", rec)
	}
	w.remove("cp-2", layout.Dir)
	w.past(p, step) // when the cause is gone
}

func TestABackupThatWasChangedIsNotRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.past(p, "leader-migration/"+component.KCM+"@cp-2")
	rec := w.engine().env.Journal.Record("leader-migration/" + component.KCM + "@cp-2")
	w.write("cp-2", rec.Backup, "changed", 0o600)
	_, back := w.wayBack()
	before := w.read("cp-2", kcmManifest)
	step, err := w.run(back)
	says(t, err, "backup "+rec.Backup+" on host cp-2 was changed", "nothing was restored")
	if step != "undo/leader-migration/"+component.KCM+"@cp-2" || w.read("cp-2", kcmManifest) != before {
		t.Errorf("step %s wrote something", step)
	}
}

func TestARollbackDoesNotOverwriteSomebodyElsesChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.past(p, "leader-migration/"+component.KCM+"@cp-2")
	theirs := strings.Replace(w.read("cp-2", kcmManifest), "--cluster-name=lab", "--cluster-name=theirs", 1)
	w.write("cp-2", kcmManifest, theirs, 0o600)
	_, back := w.wayBack()
	_, err := w.run(back)
	says(t, err, kcmManifest+" on host cp-2 was changed outside this migration after the migration wrote it", "put your change aside", layout.Dir+"/backup/run-1/")
	if w.read("cp-2", kcmManifest) != theirs {
		t.Error("their change is gone")
	}
}

// What would stop a rollback in its middle is asked before its first step, of all hosts.
func TestARollbackAsksAllFilesBeforeItsFirstStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.past(p, "leader-migration/"+component.KCM+"@cp-2")
	j, back := w.wayBack()
	ask := func(hosts ...hostaccess.Host) error {
		return precondition.FilesUnchanged(t.Context(), step.Options{Kube: w.kube, Hosts: hosts}, j, back)
	}
	if err := ask(w.hosts...); err != nil {
		t.Fatal(err)
	}
	w.write("cp-1", layout.KCMMigration, w.read("cp-1", layout.KCMMigration)+"# theirs\n", 0o600)
	w.write("cp-2", kcmManifest, w.read("cp-2", kcmManifest)+"# theirs\n", 0o600)
	err := ask(w.hosts...)
	says(t, err, layout.KCMMigration+" on host cp-1 was changed outside this migration", kcmManifest+" on host cp-2 was changed outside this migration")
	var stale *step.StaleError
	if !errors.As(err, &stale) || len(stale.Changed) != 2 {
		t.Errorf("each file is named once: %v", err)
	}
	if err := ask(); err != nil {
		t.Errorf("hosts that are not there are left to the steps: %v", err)
	}
}

func TestAnInterruptionEndsBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	stop := make(chan struct{})
	var done []string
	err := w.engine(func(o *step.Options) {
		o.Hook = func(point, _ string) {
			if point == "during" && len(done) == 2 {
				close(stop)
			}
		}
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventDone {
				done = append(done, e.Step.ID)
			}
		}
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, step.ErrInterrupted) {
		t.Fatalf("error: %v", err)
	}
	if len(done) != 3 || w.engine().env.Journal.Record(p.Steps[2].ID).Result != v1.StepResultDone || w.engine().env.Journal.Record(p.Steps[3].ID).Result != "" {
		t.Errorf("the current step is finished and the next not begun; done: %v", done)
	}
}

func TestAnOwnerIsNotStoppedWhenNobodyCanTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	before := w.read("cp-1", kcmManifest)
	step, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "after" && strings.HasPrefix(id, "leader-migration/") {
				w.mu.Lock()
				w.deaf[component.KCM+"@cp-2"] = true
				w.mu.Unlock()
			}
		}
	})
	if err == nil || step != "leader-migration/"+component.KCM+"@cp-1" {
		t.Fatalf("step %s: %v", step, err)
	}
	says(t, err, "was not proven, so that none was restarted", "kube-controller-manager on host cp-2 did not answer")
	if w.read("cp-1", kcmManifest) != before || w.holder(component.KCM) == "" {
		t.Error("the owner was touched")
	}
}

func TestALeaseIsLeftAloneWhenItsOwnerDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	owner := w.holder(component.KCM)
	w.stuck[component.KCM+"@cp-1"] = true
	_, err := w.run(p)
	says(t, err, "waited for 1m15s", "did not end", "its lease "+component.KCM+" was left alone", "run the same command again")
	if w.holder(component.KCM) != owner {
		t.Errorf("the lease of a process that lives was released: %q", w.holder(component.KCM))
	}
	// It ends at last; the next run releases what is owed.
	w.mu.Lock()
	delete(w.stuck, component.KCM+"@cp-1")
	w.mu.Unlock()
	w.past(p, "leader-migration/"+component.KCM+"@cp-1")
	for _, r := range w.engine().env.Journal.Record("leader-migration/" + component.KCM + "@cp-1").Handovers {
		if r.Released == nil && r.Note == "" {
			t.Errorf("it is still owed: %+v", r)
		}
	}
}

func TestAStepWhoseEffectDoesNotShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.stuck[component.KCM+"@cp-2"] = true // its kubelet does not see the new manifest
	planned, err := w.run(p)
	var v *step.VerifyError
	if !errors.As(err, &v) || planned != "leader-migration/"+component.KCM+"@cp-2" {
		t.Fatalf("step %s: %v", planned, err)
	}
	const why = "mirror pod kube-system/kube-controller-manager-node-cp-2: as before the change: the kubelet of node node-cp-2 has not taken the new manifest"
	says(t, err, "not verified after 2m0s: "+why)
	rec := w.engine().env.Journal.Record(planned)
	if rec.Result != v1.StepResultStarted || !strings.Contains(rec.Error, why) || rec.BackupSHA256 == "" {
		t.Errorf("record %+v", rec)
	}
	delete(w.stuck, component.KCM+"@cp-2")
	w.past(p, planned)
}

func TestWhatAVerificationSees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"a node that is gone", func(w *world) { w.api.Delete("/api/v1/nodes/node-cp-2") }, "node node-cp-2 is gone"},
		{"a node that was recreated", func(w *world) {
			w.api.Delete("/api/v1/nodes/node-cp-2")
			w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-cp-2"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-cp-2"}})
		}, "node node-cp-2 was recreated"},
		{"another provider id", func(w *world) {
			var n corev1.Node
			w.api.Get(w.t, "/api/v1/nodes/node-cp-2", &n)
			n.Spec.ProviderID = "aws:///us-east-1a/i-other"
			w.api.Put(w.t, &n)
		}, `node node-cp-2 has provider id "aws:///us-east-1a/i-other", it had "aws:///us-east-1a/i-cp-2"`},
		{"another address", func(w *world) {
			var s corev1.Service
			w.api.Get(w.t, "/api/v1/namespaces/shop/services/web", &s)
			s.Status.LoadBalancer.Ingress[0].Hostname = "b.elb"
			w.api.Put(w.t, &s)
		}, "service shop/web has the addresses [b.elb], it had [a.elb]"},
		{"a loop that nobody runs", func(w *world) {
			for _, name := range []string{"cp-1", "cp-2"} {
				w.remove(name, kcmManifest)
			}
		}, "no manager runs loop service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.api.Put(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
				Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "a.elb"}}}},
			})
			p, _ := w.begin()
			p.Steps = []v1.Step{{ID: "verify", Phase: planstep.PhaseVerify, Kind: v1.StepVerify, Expect: map[string]string{"service": component.KCM}}}
			if step, err := w.run(p); err != nil {
				t.Fatalf("nothing has changed: step %s: %v", step, err)
			}
			c.change(w)
			_, err := w.run(p)
			var v *step.VerifyError
			if !errors.As(err, &v) {
				t.Fatalf("error: %v", err)
			}
			says(t, err, c.want)
		})
	}
}

func TestARestartOfTheAPIServerUnderANewOwner(t *testing.T) {
	t.Parallel()
	// Between the step of the manager and that of the API server on one host, leadership comes back to the host.
	w := newWorld(t, 2)
	p, _ := w.begin()
	p.Steps = p.Steps[:positionOf(p, "external/kubelet@cp-1")]
	moved := false
	var progress []string
	step, err := w.run(p, func(o *step.Options) {
		o.Hook = func(point, id string) {
			if !moved && point == "after" && id == "external/"+component.KCM+"@cp-2" {
				moved = true
				w.mu.Lock()
				now := metav1.NewMicroTime(w.clock.Now())
				w.api.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: component.KCM, Namespace: component.Namespace}, Spec: coordinationv1.LeaseSpec{
					HolderIdentity: ptr.To(w.procs[component.KCM+"@cp-2"].identity()), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](9)}})
				w.mu.Unlock()
			}
		}
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventProgress {
				progress = append(progress, e.Message)
			}
		}
	})
	if err != nil {
		t.Fatalf("step %s: %v", step, err)
	}
	// The world has looked that no API server was restarted under who leads.
	if !slices.ContainsFunc(progress, func(s string) bool {
		return strings.Contains(s, "kube-controller-manager on cp-2 leads and depends on the API server that is about to be restarted")
	}) {
		t.Errorf("progress: %v", progress)
	}
}

func TestAHostThatIsNotReachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	_, err := w.run(p, func(o *step.Options) { o.Hosts = o.Hosts[:1] })
	says(t, err, `reaching host cp-2: it is in the plan and not in --host-access`)
}

func TestAStepOfAnotherVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.unjudged = true
	for _, c := range []struct {
		step v1.Step
		want string
	}{
		{v1.Step{ID: "x", Kind: "Reboot"}, `step x is of kind "Reboot", which this version of transplant does not know`},
		{v1.Step{ID: "x", Kind: v1.StepEnsureObject, Ref: "Widget/a"}, `object "Widget/a" is not known`},
		{v1.Step{ID: "x", Kind: v1.StepEnsureObject, Ref: "Role/kube-system/a", Object: "{"}, "object of step x"},
		{v1.Step{ID: "x", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/x", Derive: "magic", Source: "/etc/kubernetes/cloud.conf"}, `derivation "magic" is not known`},
		{v1.Step{ID: "x", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/x", Mode: "rw"}, `mode "rw"`},
		{v1.Step{ID: "x", Kind: v1.StepDeleteObject, Ref: "Role/kube-system/a", Requires: []string{"moon:full"}}, ""},
		{v1.Step{ID: "x", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/x", Requires: []string{"moon:full"}}, `fact "moon:full" is not known`},
	} {
		broken := *p
		broken.Steps = []v1.Step{c.step}
		err := w.engine().Run(t.Context(), &broken, nil)
		if c.want == "" {
			if err != nil {
				t.Errorf("what is done needs no facts: %v", err)
			}
			continue
		}
		says(t, err, c.want)
	}
}

func TestTheTimeThatAStepMayTake(t *testing.T) {
	t.Parallel()
	for component, want := range map[string]time.Duration{component.KAS: 3 * time.Minute, component.KCM: 2 * time.Minute, "kubelet": 2 * time.Minute, "": time.Minute} {
		if have := step.TimeoutOf(v1.Step{Component: component}); have != want {
			t.Errorf("%q: %s, want %s", component, have, want)
		}
	}
}

// A second Ctrl-C ends a step in its middle. Nothing went wrong with it, and no onlooker is to look for a cause.
func TestACommandThatIsEndedInAStepIsNoFailureOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var kinds []step.EventKind
	begun := ""
	err := w.engine(func(o *step.Options) {
		o.Hook = func(point, id string) {
			if point == "during" && strings.HasPrefix(id, "leader-migration/"+component.KCM) {
				begun = id
				end()
			}
		}
		o.Tell = func(e step.Event) {
			if e.Step.ID == begun {
				kinds = append(kinds, e.Kind)
			}
		}
	}).Run(ctx, p, nil)
	if begun == "" || !errors.Is(err, context.Canceled) {
		t.Fatalf("begun %q, %v", begun, err)
	}
	j, err := journal.Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	if rec := j.Record(begun); rec.Result != v1.StepResultStarted || rec.Error != "" {
		t.Errorf("the record of %s: %+v", begun, rec)
	}
	if !slices.Contains(kinds, step.EventInterrupted) || slices.Contains(kinds, step.EventFailed) {
		t.Errorf("it was told: %v", kinds)
	}
	if _, err := w.run(p); err != nil {
		t.Errorf("the same command does not go on: %v", err)
	}
}
