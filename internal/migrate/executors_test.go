package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/verify"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// given makes a journal for a plan of these steps.
func (w *world) given(steps ...v1.Step) *v1.Plan {
	w.t.Helper()
	p := &v1.Plan{
		TypeMeta: v1.Type(
			v1.KindPlan,
		),
		Cluster:   v1.Cluster{UID: "cluster-uid"},
		Strategy:  planstep.Downtime,
		Direction: planstep.Forward,
		Options:   options.Defaults(v1.Options{}),
		Facts:     []v1.Fact{{ID: "cluster:uid", Value: "cluster-uid"}},
		Steps:     steps,
	}
	for i := range p.Steps {
		p.Steps[i].Requires = append(p.Steps[i].Requires, "cluster:uid")
	}
	w.unjudged = true
	if _, err := journal.Create(
		w.t.Context(),
		w.kube,
		v1.Journal{Run: "run-1", Started: w.clock.Now(), Phase: v1.RunApplying, Plan: *p},
		w.snapshot(),
	); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// afterEveryDeath runs the steps with engines that die at each point of each step, once, and tells how often that was.
func (w *world) afterEveryDeath(p *v1.Plan) int {
	w.t.Helper()
	died := map[string]bool{}
	for {
		again, err := w.runUntil(p, func(point, step string) bool {
			key := point + " " + step
			first := !died[key]
			died[key] = true
			return first
		})
		if err != nil {
			w.t.Fatalf("after %d deaths: %v", len(died), err)
		}
		if !again {
			return len(died)
		}
	}
}

// back plans and goes the way back, dying at each point of it.
func (w *world) backAfterEveryDeath() {
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
	w.afterEveryDeath(p)
}

const kubeadmText = "apiServer:\n  extraArgs:\n    cloud-provider: aws\napiVersion: kubeadm.k8s.io/v1beta3\ncontrollerManager:\n  extraArgs:\n    cloud-provider: aws\nkind: ClusterConfiguration\n"

func kubeadmConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config", Namespace: component.Namespace},
		Data:       map[string]string{"ClusterConfiguration": kubeadmText},
	}
}

func TestAPatchAndItsWayBackSurviveEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.api.Put(
		t,
		kubeadmConfig(),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: component.Namespace, Labels: map[string]string{"keep": "me"}},
			Data:       map[string]string{"a": "1", "b": "2"},
		},
	)
	p := w.given(
		v1.Step{
			ID:    "patch/c",
			Phase: "p",
			Kind:  v1.StepPatchObject,
			Ref:   "ConfigMap/kube-system/c",
			Patch: `{"data":{"a":"9","b":null,"c":"3"},"metadata":{"labels":{"new":"x"}}}`,
		},
		v1.Step{
			ID:        "patch/kubeadm",
			Phase:     "p",
			Kind:      v1.StepPatchObject,
			Ref:       "ConfigMap/kube-system/kubeadm-config",
			Derive:    layout.DeriveKubeadm,
			Component: component.KCM,
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditSetFlag, Name: "v", Value: "3"}},
		},
	)
	if n := w.afterEveryDeath(p); n < 6 {
		t.Errorf("the engine died %d times only", n)
	}
	data := func(name string) map[string]string {
		var cm corev1.ConfigMap
		w.api.Get(t, "/api/v1/namespaces/kube-system/configmaps/"+name, &cm)
		return cm.Data
	}
	if have := fmt.Sprint(data("c")); have != "map[a:9 c:3]" {
		t.Errorf("patched: %s", have)
	}
	want := strings.Replace(
		kubeadmText,
		"controllerManager:\n  extraArgs:\n    cloud-provider: aws",
		"controllerManager:\n  extraArgs:\n    cloud-provider: external\n    v: \"3\"",
		1,
	)
	if have := data("kubeadm-config")["ClusterConfiguration"]; have != want {
		t.Errorf("kubeadm's configuration: %s", have)
	}
	w.backAfterEveryDeath()
	if have := fmt.Sprint(data("c")); have != "map[a:1 b:2]" {
		t.Errorf("put back: %s", have)
	}
	if have := data("kubeadm-config")["ClusterConfiguration"]; have != kubeadmText {
		t.Errorf("kubeadm's configuration is not as it was: %s", have)
	}
}

func TestAStalePlanNamesWhatChangedBesideFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.api.Put(t, kubeadmConfig(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	options := v1.Options{CredentialProvider: "/bin/provider", CredentialProviderSHA256: hostaccess.SHA256([]byte("binary"))}
	p := &v1.Plan{Cluster: v1.Cluster{UID: "cluster-uid"}, Options: options, Facts: []v1.Fact{
		{
			ID:    planstep.KubeadmFact,
			Value: hostaccess.SHA256([]byte(kubeadmText)),
		},
		{ID: planstep.NodeFact("old")},
		{ID: planstep.LocalFact("/bin/provider"), Value: hostaccess.SHA256([]byte("binary"))},
	}}
	local := "binary"
	preflight := func() error {
		return precondition.Preflight(
			t.Context(),
			step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, ReadLocal: func(string) ([]byte, error) { return []byte(local), nil }},
			p,
		)
	}
	if err := preflight(); err != nil {
		t.Fatalf("nothing has changed: %v", err)
	}
	local = "another"
	changed := kubeadmConfig()
	changed.Data["ClusterConfiguration"] += "# a note\n"
	w.api.Put(t, changed, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1"}})
	says(
		t,
		preflight(),
		"ClusterConfiguration of ConfigMap/kube-system/kubeadm-config was changed outside this migration",
		`node old has provider id "aws:///a/i-1" by now, it had ""`,
		"/bin/provider on this machine is not the file with SHA-256 "+hostaccess.SHA256([]byte("binary")),
	)
}

func TestAPatchedObjectThatSomebodyElseChanges(t *testing.T) {
	t.Parallel()
	planned := v1.Step{ID: "patch/c", Phase: "p", Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/c", Patch: `{"data":{"a":"9"}}`}
	put := func(w *world, value string) {
		w.api.Put(w.t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: component.Namespace}, Data: map[string]string{"a": value}})
	}
	t.Run("before it is written", func(t *testing.T) {
		w := newWorld(t, 1)
		put(w, "1")
		p := w.given(planned)
		_, err := w.run(p, func(o *step.Options) {
			o.Hook = func(point, _ string) {
				if point == "during" {
					put(w, "2")
				}
			}
		})
		says(t, err, "ConfigMap/kube-system/c was changed outside this migration while step patch/c was under way")
	})
	t.Run("after it was written", func(t *testing.T) {
		w := newWorld(t, 1)
		put(w, "1")
		p := w.given(planned)
		if _, err := w.run(p); err != nil {
			t.Fatal(err)
		}
		put(w, "2")
		back := &v1.Plan{
			Cluster: p.Cluster,
			Facts:   p.Facts,
			Steps:   []v1.Step{{ID: "undo/patch/c", Phase: "r", Kind: v1.StepUnpatchObject, Ref: planned.Ref, Restore: planned.ID}},
		}
		_, err := w.run(back)
		says(t, err, "was changed outside this migration after step patch/c (fields data.a)", `{"data":{"a":"1"}}`)
	})
	t.Run("a secret", func(t *testing.T) {
		w := newWorld(t, 1)
		w.api.Put(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: component.Namespace}})
		_, err := w.run(w.given(v1.Step{ID: "s", Phase: "p", Kind: v1.StepPatchObject, Ref: "Secret/kube-system/s", Patch: `{"data":{"a":"9"}}`}))
		says(t, err, "secrets are not patched")
	})
}

// deployed puts a kube-controller-manager's Deployment into the world, and a controller that rolls it out.
func (w *world) deployed(replicas int32) {
	labels := map[string]string{"app": "kcm"}
	w.api.Put(w.t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: component.KCM, Namespace: component.Namespace},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels: labels,
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: component.KCM, Image: "registry.k8s.io/kube-controller-manager:v1.26.0",
				Command: []string{component.KCM, "--cloud-provider=aws"}, Args: []string{"--v=2"}}}},
		}},
	})
	w.more = w.rollOut
}

func (w *world) deployment() appsv1.Deployment {
	var d appsv1.Deployment
	w.api.Get(w.t, "/apis/apps/v1/namespaces/kube-system/deployments/"+component.KCM, &d)
	return d
}

// rollOut is one pass of a Deployment controller: pods of an old template end, new ones come, and the first of them leads.
func (w *world) rollOut() {
	d := w.deployment()
	want := map[string]bool{}
	for i := range *d.Spec.Replicas {
		sum, err := json.Marshal(d.Spec.Template)
		if err != nil {
			w.t.Error(err)
		}
		want[fmt.Sprintf("%s-%s-%d", component.KCM, hostaccess.SHA256(sum)[:6], i)] = true
	}
	pods, err := w.kube.CoreV1().Pods(component.Namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Error(err)
		return
	}
	for _, p := range pods.Items {
		if p.Labels["app"] == "kcm" && !want[p.Name] {
			w.api.Delete("/api/v1/namespaces/kube-system/pods/" + p.Name)
		}
	}
	for name := range want {
		w.api.Put(
			w.t,
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: component.Namespace, Labels: map[string]string{"app": "kcm"}},
				Spec:       d.Spec.Template.Spec,
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			},
		)
		now := metav1.NewMicroTime(w.clock.Now())
		w.api.Put(
			w.t,
			&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "deployed", Namespace: component.Namespace},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(name + "_1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now},
			},
		)
	}
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           *d.Spec.Replicas,
		UpdatedReplicas:    *d.Spec.Replicas,
		ReadyReplicas:      *d.Spec.Replicas,
	}
	if d.Status.String() != status.String() {
		d.Status = status
		w.api.Put(w.t, &d)
	}
}

func TestADeploymentIsChangedAndPutBackThroughEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(2)
	ref := "Deployment/kube-system/" + component.KCM
	p := w.given(v1.Step{ID: "external/" + component.KCM, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: component.KCM, Leases: []string{"deployed"},
		Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "v"}}})
	w.afterEveryDeath(p)
	c := w.deployment().Spec.Template.Spec.Containers[0]
	if have := fmt.Sprint(c.Command, c.Args); have != "[kube-controller-manager --cloud-provider=external] []" {
		t.Errorf("flags: %s", have)
	}
	w.backAfterEveryDeath()
	c = w.deployment().Spec.Template.Spec.Containers[0]
	if have := fmt.Sprint(c.Command, c.Args); have != "[kube-controller-manager --cloud-provider=aws] [--v=2]" {
		t.Errorf("flags are not as they were: %s", have)
	}
}

func TestScalingToNoneAndBackWithOtherFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(2)
	ref := "Deployment/kube-system/" + component.KCM
	stop := v1.Step{ID: "stop", Phase: "p", Kind: v1.StepScale, Ref: ref, Component: component.KCM, Replicas: ptr.To[int32](0)}
	start := v1.Step{
		ID:        "start",
		Phase:     "q",
		Kind:      v1.StepScale,
		Ref:       ref,
		Component: component.KCM,
		Replicas:  ptr.To[int32](2),
		Restore:   "stop",
		Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
	}
	p := w.given(stop, start)
	none := false
	w.more = func() {
		w.rollOut()
		none = none || *w.deployment().Spec.Replicas == 0
	}
	w.afterEveryDeath(p)
	d := w.deployment()
	if !none || *d.Spec.Replicas != 2 || d.Spec.Template.Spec.Containers[0].Command[1] != "--cloud-provider=external" {
		t.Errorf("scaled to none %v, then %d replicas with %v", none, *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Command)
	}
}

func TestAWorkloadThatSomebodyElseChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(1)
	live, err := object.ReadLive(t.Context(), w.engineFor(t).env, "Deployment/kube-system/"+component.KCM)
	if err != nil {
		t.Fatal(err)
	}
	p := w.given(
		v1.Step{
			ID:        "edit",
			Phase:     "p",
			Kind:      v1.StepEditWorkload,
			Ref:       "Deployment/kube-system/" + component.KCM,
			Component: component.KCM,
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "a", Value: "b"}},
			Requires:  []string{planstep.WorkloadFact("Deployment/kube-system/" + component.KCM)},
		},
	)
	p.Facts = append(
		p.Facts,
		v1.Fact{
			ID:     planstep.WorkloadFact("Deployment/kube-system/" + component.KCM),
			Value:  workload.TemplateSum(live),
			Detail: component.KCM + "\n--cloud-provider=aws\n--v=2",
		},
	)
	d := w.deployment()
	d.Spec.Template.Spec.Containers[0].Args = []string{"--v=4"}
	w.api.Put(t, &d)
	_, err = w.run(p)
	says(t, err, "the plan is stale", "the pod template of Deployment/kube-system/"+component.KCM+" was changed outside this migration (+ --v=4, - --v=2)")
}

func (w *world) engineFor(t *testing.T) *Engine {
	t.Helper()
	return New(step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, Clock: w.clock, Unjudged: true}, &journal.Journal{})
}

func TestAFileIsCopiedAndTakenBackThroughEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const path = "/opt/bin/ecr-credential-provider"
	w.write("cp-1", path, "old", 0o700)
	planned := v1.Step{
		ID:      "copy",
		Phase:   "p",
		Kind:    v1.StepCopyFile,
		Host:    "cp-1",
		Path:    path,
		Source:  "/here/ecr",
		Content: hostaccess.SHA256([]byte("new")),
		Mode:    "0755",
	}
	p := w.given(planned)
	local := "other"
	_, err := w.run(p, func(o *step.Options) { o.ReadLocal = func(string) ([]byte, error) { return []byte(local), nil } })
	says(t, err, "/here/ecr on this machine is not the file with SHA-256 "+planned.Content)
	if have := w.read("cp-1", path); have != "old" {
		t.Errorf("something was copied: %s", have)
	}
	local = "new"
	w.readLocal = func(string) ([]byte, error) { return []byte(local), nil }
	w.afterEveryDeath(p)
	if have := w.files()["/cp-1"+path]; have != "0755 new" {
		t.Errorf("copied: %s", have)
	}
	w.backAfterEveryDeath()
	if have := w.files()["/cp-1"+path]; have != "0700 old" {
		t.Errorf("put back: %s", have)
	}
}

// TestALargeProgramIsCopiedAndTakenAway: credential providers are larger than what is read of a host.
func TestALargeProgramIsCopiedAndTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const path = "/opt/bin/ecr-credential-provider"
	program := bytes.Repeat([]byte("program "), 3<<20)
	w.readLocal = func(string) ([]byte, error) { return program, nil }
	w.afterEveryDeath(w.given(v1.Step{
		ID: "copy", Phase: "p", Kind: v1.StepCopyFile, Host: "cp-1", Path: path, Source: "/here/ecr", Content: hostaccess.SHA256(program), Mode: "0755",
	}))
	if have := w.read("cp-1", path); have != string(program) {
		t.Errorf("%d bytes were copied", len(have))
	}
	w.backAfterEveryDeath()
	if have, there := w.files()["/cp-1"+path]; there {
		t.Errorf("%d bytes are still there", len(have))
	}
}

func TestAWaitForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	var lines []string
	looks := 0
	w.more = func() {
		if looks++; looks == 40 {
			w.api.Delete("/api/v1/nodes/node-cp-2")
		}
	}
	p := w.given(v1.Step{ID: "await", Phase: "p", Kind: v1.StepAwait, Await: &v1.Await{
		NodeGone:     "node-cp-2",
		Component:    component.KCM,
		Nodes:        1,
		Version:      "1.26",
		Flags:        map[string]string{"cloud-provider": "aws", "enable-leader-migration": ""},
		Instructions: []string{"take it down"},
	}})
	_, err := w.run(p, func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if e.Kind == step.EventProgress {
				lines = append(lines, e.Message)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 2 || lines[0] != "take it down" || lines[1] != "waiting: node node-cp-2 is still there" {
		t.Errorf("progress: %q", lines)
	}
}

// A Node that was deleted does not end what runs on its machine.
func TestAWaitForANodeThatIsGoneGoesOnWhileAManagerThereHoldsALease(t *testing.T) {
	t.Parallel()
	for name, holder := range map[string]string{"in its name": "node-cp-2_x", "in its name with a domain": "node-cp-2.example.com_x", "in the name of its host": "cp-2_x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.api.Delete("/api/v1/nodes/node-cp-2")
			hold := func() {
				now := metav1.NewMicroTime(w.clock.Now())
				w.api.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: component.CCM, Namespace: component.Namespace}, Spec: coordinationv1.LeaseSpec{
					HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &now, RenewTime: &now}})
			}
			hold()
			e := w.engineFor(t)
			e.env.Plan, e.env.Before = &v1.Plan{}, w.snapshot()
			step := v1.Step{ID: "await", Await: &v1.Await{NodeGone: "node-cp-2"}}
			for range 3 {
				w.clock.Step(10 * time.Second)
				hold()
				if why, err := (verify.Await{Env: e.env}).Missing(
					t.Context(),
					step,
				); err != nil ||
					!strings.Contains(why, "holds lease "+component.CCM+": shut its machine down") {
					t.Fatalf("while it renews its lease: %q, %v", why, err)
				}
			}
			w.clock.Step(20 * time.Second)
			if why, err := (verify.Await{Env: e.env}).Missing(t.Context(), step); err != nil || why != "" {
				t.Errorf("when it is silent: %q, %v", why, err)
			}
		})
	}
}

func TestNodesThatWereReplacedAreNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p := w.given(
		v1.Step{ID: "await", Phase: "p", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-2"}},
		v1.Step{ID: "verify", Phase: "q", Kind: v1.StepVerify},
	)
	w.api.Delete("/api/v1/nodes/node-cp-2")
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.api.Delete("/api/v1/nodes/node-cp-1")
	_, err := w.run(p)
	says(t, err, "node node-cp-1 is gone")
}

func TestAWaitSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t, 2)
	w.labelled("node-cp-1", "node-cp-2")
	for _, c := range []struct {
		name  string
		await v1.Await
		want  string
	}{
		{"a version", v1.Await{Component: component.KCM, Nodes: 2, Version: "1.27"}, "0 of 2 nodes run kube-controller-manager of version 1.27 (node-cp-1 runs version 1.26.0; node-cp-2 runs version 1.26.0)"},
		{"a flag", v1.Await{Component: component.KCM, Nodes: 2, Flags: map[string]string{"cloud-provider": "external"}}, `node-cp-1 runs with --cloud-provider="aws", not "external"`},
		{"a flag that must not be there", v1.Await{Component: component.KCM, Nodes: 1, Flags: map[string]string{"cloud-config": ""}}, "node-cp-1 runs with --cloud-config=/etc/kubernetes/cloud.conf"},
		{"nobody may run it", v1.Await{Component: component.KCM, Flags: map[string]string{"cloud-provider": "aws"}}, "2 of 0 nodes run kube-controller-manager"},
		{"1.2 is not 1.26", v1.Await{Component: component.KCM, Nodes: 1, Version: "1.2"}, "0 of 1 nodes run"},
		{"all is there", v1.Await{Component: component.KCM, Nodes: 2, Version: "v1.26.0"}, ""},
		{"nobody runs it", v1.Await{Component: component.CCM}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, err := verify.Await{Env: w.engineFor(t).env}.Missing(t.Context(), v1.Step{Await: &c.await})
			if err != nil || (c.want == "") != (have == "") || !strings.Contains(have, c.want) {
				t.Errorf("%q, %v; want %q", have, err, c.want)
			}
		})
	}
}

func TestAWaitEndsWhenTheOperatorStopsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.given(v1.Step{ID: "await", Phase: "p", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-1"}})
	stop := make(chan struct{})
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if strings.HasPrefix(e.Message, "waiting: ") {
				close(stop)
			}
		}
	}).Run(t.Context(), p, stop)
	if !step.IsInterrupted(err) {
		t.Fatalf("error: %v", err)
	}
	w.api.Delete("/api/v1/nodes/node-cp-1")
	if _, err := w.run(p); err != nil {
		t.Errorf("going on with the wait: %v", err)
	}
}

// drainable puts pods on a node and an eviction that obeys a budget, which the first refusals times lets nobody go.
func (w *world) drainable(refusals int) (evicted func() []string) {
	yes := true
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "apps", Labels: map[string]string{"app": name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name, Controller: &yes}}}, Spec: corev1.PodSpec{NodeName: "node-cp-1"}}
		if change != nil {
			change(p)
		}
		return p
	}
	w.api.Put(
		w.t,
		pod("web", nil),
		pod("other", nil),
		pod("daemon", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		}),
		pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "another" }),
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "apps"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		},
	)
	var gone []string
	w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		path, eviction := strings.CutSuffix(r.URL.Path, "/eviction")
		if !eviction {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(path, "/web") && refusals > 0 {
			refusals--
			rw.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(
				rw,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"Cannot evict pod as it would violate the pod's disruption budget."}`,
			)
			return true
		}
		gone = append(gone, path[strings.LastIndex(path, "/")+1:])
		w.api.Delete(path)
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprint(rw, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return true
	}
	return func() []string { return gone }
}

func kubeletStep() v1.Step {
	return v1.Step{
		ID:        "external/kubelet@cp-1",
		Phase:     "p",
		Kind:      v1.StepKubelet,
		Host:      "cp-1",
		Component: "kubelet",
		Path:      "/var/lib/kubelet/kubeadm-flags.env",
		Drain:     true,
		Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
	}
}

func TestANodeIsDrainedForItsKubeletAndMadeSchedulableAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	evicted := w.drainable(3)
	unschedulable := func() bool {
		var n corev1.Node
		w.api.Get(t, "/api/v1/nodes/node-cp-1", &n)
		return n.Spec.Unschedulable
	}
	var told []string
	p := w.given(kubeletStep())
	_, err := w.run(p, func(o *step.Options) {
		o.Tell = func(e step.Event) { told = append(told, e.Message) }
		o.Hook = func(point, _ string) {
			if point == "during" && (!unschedulable() || len(evicted()) != 2) {
				t.Errorf("the kubelet is changed with the node schedulable=%v and %v evicted", !unschedulable(), evicted())
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(evicted()); have != "[other web]" {
		t.Errorf("evicted: %s", have)
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "apps/web (kept by PodDisruptionBudget apps/web)") {
		t.Errorf("the budget is not named:\n%s", all)
	}
	if unschedulable() {
		t.Error("the node stays unschedulable")
	}
	w.backAfterEveryDeath()
	if unschedulable() {
		t.Error("the node stays unschedulable after the way back")
	}
}

func TestANodeThatWasCordonedStaysSoThroughEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(0)
	var n corev1.Node
	w.api.Get(t, "/api/v1/nodes/node-cp-1", &n)
	n.Spec.Unschedulable = true
	w.api.Put(t, &n)
	w.afterEveryDeath(w.given(kubeletStep()))
	w.api.Get(t, "/api/v1/nodes/node-cp-1", &n)
	if !n.Spec.Unschedulable {
		t.Error("a node that somebody else had cordoned was made schedulable")
	}
}

func TestABudgetThatLetsNobodyGoEndsTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.drainable(1 << 20)
	before := w.read("cp-1", "/var/lib/kubelet/kubeadm-flags.env")
	_, err := w.run(w.given(kubeletStep()))
	says(t, err, "node node-cp-1 was not drained", "apps/web (kept by PodDisruptionBudget apps/web)", "Some of its pods may have been evicted", "15m0s", "--drain-timeout")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is no timeout: %v", err)
	}
	if w.node("cp-1").Spec.Unschedulable {
		t.Error("a node on which nothing was changed stays unschedulable")
	}
	if w.read("cp-1", "/var/lib/kubelet/kubeadm-flags.env") != before || w.restarts["kubelet@cp-1"] != 0 {
		t.Error("the kubelet was changed on a node that still has pods")
	}
}
