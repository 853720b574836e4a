package migrate

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/servingrequest/requesttest"
)

// spreadStep changes a kubelet whose flags and gates are in four files.
func spreadStep(host string) v1.Step {
	return v1.Step{
		ID:        "external/kubelet@" + host,
		Phase:     "p",
		Kind:      v1.StepKubelet,
		Host:      host,
		Component: "kubelet",
		Path:      flagsFile,
		Files:     []string{dropInFile, defaultsFile, configFile},
		Edits: []v1.Edit{
			{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"},
			{Op: v1.EditUnsetFlag, Name: "cloud-config", Path: defaultsFile},
			{Op: v1.EditSetFlag, Name: "feature-gates", Value: "CSIMigration=true,A=true", Path: dropInFile},
			{Op: v1.EditSetGate, Name: "CSIMigrationAWS", Value: "true", Path: configFile},
		},
	}
}

func (w *world) spread(host string) {
	w.write(host, flagsFile, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --hostname-override=node-"+host+"\"\n", 0o644)
	w.write(host, defaultsFile, "KUBELET_EXTRA_ARGS=--cloud-config=/etc/kubernetes/cloud.conf\n", 0o640)
	w.write(host, dropInFile, "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--feature-gates=A=true\"\n", 0o644)
	w.write(host, configFile, "kind: KubeletConfiguration\nfeatureGates:\n  CSIMigrationAWS: false\n", 0o600)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lives, host) // it runs with these
}

func plainStep(host string) v1.Step {
	s := kubeletStep()
	s.ID, s.Host, s.Drain = "external/kubelet@"+host, host, false
	return s
}

func TestAKubeletOfSeveralFilesIsChangedWithOneRestartAndPutBackByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.spread("cp-1")
	before := w.files()
	p := w.given(spreadStep("cp-1"))
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		flagsFile: "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external --hostname-override=node-cp-1\"\n", defaultsFile: "KUBELET_EXTRA_ARGS=\n",
		dropInFile: "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--feature-gates=CSIMigration=true,A=true\"\n", configFile: "kind: KubeletConfiguration\nfeatureGates:\n  CSIMigrationAWS: true\n",
	} {
		if have := w.read("cp-1", file); have != want {
			t.Errorf("%s:\n%s\nwant:\n%s", file, have, want)
		}
	}
	if w.restarts["kubelet@cp-1"] != 1 {
		t.Errorf("%d restarts", w.restarts["kubelet@cp-1"])
	}
	rec := w.engine().env.Journal.Record("external/kubelet@cp-1")
	if rec.Result != v1.StepResultDone || rec.Node != nil || len(rec.Files) != 3 || rec.Flags["cloud-provider"] != "aws" ||
		rec.Flags["cloud-config"] != "/etc/kubernetes/cloud.conf" {
		t.Errorf("the record: %+v", rec)
	}
	w.backAfterEveryDeath()
	w.same(before)
	if have := w.running("cp-1", "cloud-config"); have != "/etc/kubernetes/cloud.conf" {
		t.Errorf("after the way back it runs with --cloud-config=%q", have)
	}
}

func (w *world) same(before map[string]string) {
	w.t.Helper()
	after := w.files()
	for name, text := range before {
		if after[name] != text {
			w.t.Errorf("%s is\n%s\nand was\n%s", name, after[name], text)
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			w.t.Errorf("%s was not there before", name)
		}
	}
}

func TestAKubeletOfSeveralFilesSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.spread("cp-1")
	before := w.files()
	w.afterEveryDeath(w.given(spreadStep("cp-1")))
	if have := w.running("cp-1", "cloud-provider"); have != "external" {
		t.Errorf("it runs with --cloud-provider=%s", have)
	}
	w.backAfterEveryDeath()
	w.same(before)
}

// unwritable is a host one of whose files cannot be written.
type unwritable struct {
	host
	path string
}

func (h unwritable) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if path == h.path {
		return &fs.PathError{Op: "write", Path: path, Err: fs.ErrPermission}
	}
	return h.host.WriteFile(ctx, path, data, mode)
}

func TestAFileThatCannotBeWrittenLeavesTheOthersAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.spread("cp-1")
	before := w.files()
	p := w.given(spreadStep("cp-1"))
	_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{unwritable{w.hosts[0].(host), defaultsFile}} })
	says(t, err, defaultsFile, "permission denied")
	w.same(before)
	if w.restarts["kubelet@cp-1"] != 0 {
		t.Error("the kubelet was restarted")
	}
	if _, err := w.run(p); err != nil {
		t.Errorf("going on when it can be written: %v", err)
	}
}

func TestAFileThatCannotBeEditedIsNoticedBeforeAnyIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.spread("cp-1")
	w.write("cp-1", configFile, "kind: KubeletConfiguration\nfeatureGates: {CSIMigrationAWS: false}\n", 0o600)
	before := w.files()
	p := w.given(spreadStep("cp-1"))
	_, err := w.run(p)
	says(t, err, configFile+" on host cp-1", "cannot be edited line by line")
	says(
		t,
		kubelet.Changeable(t.Context(), step.Options{Kube: w.kube, Hosts: w.hosts, NodeNames: w.nodeNames()}, p),
		configFile+" on host cp-1",
		"cannot be edited line by line",
	)
	w.same(before)
}

func TestTheFileAloneProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	// Somebody has edited the file and not restarted the kubelet.
	w.write("cp-1", flagsFile, strings.Replace(w.read("cp-1", flagsFile), "aws", "external", 1), 0o644)
	if _, err := w.run(w.given(plainStep("cp-1"))); err != nil {
		t.Fatal(err)
	}
	if rec := w.engine().env.Journal.Record(
		"external/kubelet@cp-1",
	); rec.Result != v1.StepResultDone || w.restarts["kubelet@cp-1"] != 1 ||
		w.running("cp-1", "cloud-provider") != "external" {
		t.Errorf("result %s, %d restarts, running with %s", rec.Result, w.restarts["kubelet@cp-1"], w.running("cp-1", "cloud-provider"))
	}
}

// kubeletRuns starts the simulated kubelet with what its files say now.
func (w *world) kubeletRuns(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kubeletOf(host)
}

func TestAHostIsTakenBackWhenItsNodeRegresses(t *testing.T) {
	t.Parallel()
	yes := true
	label := func(n *corev1.Node) { n.Labels = map[string]string{"zone": "a"} }
	for _, c := range []struct {
		name   string
		before func(*world)
		fate   func(w *world) *start // of a kubelet that starts external
		want   string
	}{
		{"the kubelet does not start", nil, func(*world) *start { return &start{err: errors.New("exit status 1: unknown flag")} }, "restarting the kubelet on host cp-1: exit status 1: unknown flag"},
		{"the kubelet says nothing", nil, func(*world) *start { return &start{silent: true} }, "the kubelet has not renewed its node's lease since it was restarted"},
		{"the node is not Ready", nil, func(w *world) *start {
			return &start{then: func() { w.heartbeat("cp-1", corev1.ConditionFalse) }}
		}, "node node-cp-1: the node is not Ready"},
		{"the providerID is another one", nil, func(w *world) *start {
			return &start{then: func() { w.changeNode("cp-1", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///b/i-2" }) }}
		}, `its providerID is "aws:///b/i-2", it was "aws:///us-east-1a/i-cp-1"`},
		{"an address is lost", func(w *world) {
			w.changeNode("cp-1", func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}}
			})
		}, func(w *world) *start {
			return &start{then: func() { w.changeNode("cp-1", func(n *corev1.Node) { n.Status.Addresses = nil }) }}
		}, "it has lost the address InternalIP=10.0.0.1"},
		{"a label is gone", func(w *world) { w.changeNode("cp-1", label) }, func(w *world) *start {
			return &start{then: func() { w.changeNode("cp-1", func(n *corev1.Node) { n.Labels = nil }) }}
		}, "its label zone=a is gone"},
		{"the node waits to be initialised", nil, func(w *world) *start {
			return &start{then: func() {
				w.changeNode("cp-1", func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"}}
				})
			}}
		}, "it has the taint node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule, with which nothing is scheduled on it"},
		{"a CSI driver is gone", func(w *world) {
			w.api.Put(w.t, &storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Name: "node-cp-1"},
				Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com"}}},
			})
		}, func(w *world) *start {
			return &start{then: func() { w.api.Put(w.t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-cp-1"}}) }}
		}, "CSI driver ebs.csi.aws.com is no longer registered on it"},
		{"a pod is no longer Ready", func(w *world) { w.api.Put(w.t, readyPod("web", true, &yes)) }, func(w *world) *start {
			return &start{then: func() { w.api.Put(w.t, readyPod("web", false, &yes)) }}
		}, "1 pod of it that ran is no longer Ready (apps/web)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			if c.before != nil {
				c.before(w)
			}
			w.kubeletRuns("cp-1")
			files := w.files()
			healthy := w.node("cp-1")
			w.fate = func(host string, flags map[string]string) *start {
				if host == "cp-1" && external(flags) {
					return c.fate(w)
				}
				return &start{then: func() { // the old flags heal it
					n := healthy.DeepCopy()
					w.changeNode(host, func(have *corev1.Node) {
						if host == "cp-1" {
							conditions := have.Status.Conditions
							*have = *n
							have.Status.Conditions = conditions
						}
					})
				}}
			}
			p := w.given(plainStep("cp-1"), plainStep("cp-2"))
			_, err := w.run(p)
			says(t, err, c.want, "The kubelet on host cp-1 has its old flags again", "no other node was touched", "transplant rollback")
			var verify *step.VerifyError
			if !errors.As(err, &verify) {
				t.Errorf("it is no failed verification: %v", err)
			}
			rec := w.engine().env.Journal.Record("external/kubelet@cp-1")
			if rec.Result != v1.StepResultUndone || rec.Undo == nil || rec.Undo.Ended == nil || !strings.Contains(rec.Undo.Reason, c.want) {
				t.Errorf("the record: %+v", rec)
			}
			if w.running("cp-1", "cloud-provider") != "aws" || w.restarts["kubelet@cp-2"] != 0 {
				t.Errorf("cp-1 runs with %s, cp-2 was restarted %d times", w.running("cp-1", "cloud-provider"), w.restarts["kubelet@cp-2"])
			}
			w.same(files)
			// When the cause is gone the same plan goes on: its facts hold.
			w.fate = nil
			if _, err := w.run(p); err != nil {
				t.Errorf("going on when the cause is gone: %v", err)
			}
			if w.running("cp-1", "cloud-provider") != "external" || w.running("cp-2", "cloud-provider") != "external" {
				t.Error("not every kubelet is external in the end")
			}
		})
	}
}

func readyPod(name string, isReady bool, controller *bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       "apps",
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name, Controller: controller}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-cp-1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func TestAKubeletThatDoesNotComeBackEvenWithItsOldFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.kubeletRuns("cp-1")
	files := w.files()
	w.fate = func(string, map[string]string) *start { return &start{err: errors.New("exit status 1")} }
	p := w.given(plainStep("cp-1"), plainStep("cp-2"))
	_, err := w.run(p)
	says(
		t,
		err,
		"Its files were put back, and the kubelet on host cp-1 does not come back with them either",
		"systemctl status kubelet",
		"journalctl -u kubelet",
		"No other node was touched",
	)
	w.same(files)
	rec := w.engine().env.Journal.Record("external/kubelet@cp-1")
	if rec.Result != v1.StepResultStarted || rec.Undo == nil || rec.Undo.Ended != nil {
		t.Errorf("the record: %+v", rec)
	}
	// It is found, and the kubelet starts again: the next run ends the undo first, and says why there was one.
	w.fate = nil
	_, err = w.run(p)
	says(t, err, "exit status 1", "has its old flags again")
	if _, err = w.run(p); err != nil {
		t.Errorf("the run after that: %v", err)
	}
}

func TestADeathInTheMiddleOfAnUndoConverges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	w.fate = func(_ string, flags map[string]string) *start {
		if external(flags) {
			return &start{silent: true}
		}
		return nil
	}
	p := w.given(plainStep("cp-1"))
	died := false
	func() {
		defer func() { died = recover() != nil }()
		_, _ = w.run(p, func(o *step.Options) {
			o.Hook = func(point, _ string) {
				if point == "undo" {
					panic("killed")
				}
			}
		})
	}()
	if !died || w.running("cp-1", "cloud-provider") != "external" {
		t.Fatalf("it did not die in the undo (%v), or after it", died)
	}
	_, err := w.run(p)
	says(t, err, "has not renewed its node's lease", "has its old flags again")
	if have := w.running("cp-1", "cloud-provider"); have != "aws" {
		t.Errorf("it runs with %s", have)
	}
	w.rollBack() // nothing is left to put back
}

func TestAddressesMayComeInAnotherOrderAndNamesMayGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	w.changeNode("cp-1", func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: "InternalIP", Address: "10.0.0.1"},
			{Type: "ExternalIP", Address: "5.5.5.5"},
			{Type: "Hostname", Address: "cp-1"},
		}
	})
	w.fate = func(string, map[string]string) *start {
		return &start{then: func() {
			w.changeNode("cp-1", func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{
					{Type: "ExternalIP", Address: "5.5.5.5"},
					{Type: "InternalIP", Address: "10.0.0.1"},
					{Type: "ExternalDNS", Address: "cp-1.example"},
				}
			})
		}}
	}
	if _, err := w.run(w.given(plainStep("cp-1"))); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(w.engine().env.Journal.Record("external/kubelet@cp-1").Notes, "\n")
	if !strings.Contains(notes, "it has lost the address Hostname=cp-1") || !strings.Contains(notes, "it has got the address ExternalDNS=cp-1.example") {
		t.Errorf("the notes:\n%s", notes)
	}
}

func TestAServingCertificateThatWaitsIsNamedWithItsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	csr := func(name, user, signer string, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Username: user, SignerName: signer, Request: requesttest.Encode(t, requesttest.Of("node-cp-1", "node-cp-1")),
			},
		}
	}
	greedy := csr("csr-greedy", "system:node:node-cp-1", certificatesv1.KubeletServingSignerName)
	greedy.Spec.Request = requesttest.Encode(t, requesttest.Of("node-cp-1", "node-cp-1", "api.example.com"))
	w.api.Put(
		t,
		greedy,
		csr("csr-ours", "system:node:node-cp-1", certificatesv1.KubeletServingSignerName),
		csr("csr-other", "system:node:node-cp-2", certificatesv1.KubeletServingSignerName),
		csr("csr-client", "system:node:node-cp-1", certificatesv1.KubeAPIServerClientKubeletSignerName),
		csr(
			"csr-approved",
			"system:node:node-cp-1",
			certificatesv1.KubeletServingSignerName,
			certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue},
		),
	)
	var told []string
	if _, err := w.run(w.given(plainStep("cp-1")), func(o *step.Options) { o.Tell = func(e step.Event) { told = append(told, e.Message) } }); err != nil {
		t.Fatal(err)
	}
	want := "the kubelet of node node-cp-1 waits for its serving certificate, for node-cp-1: kubectl certificate approve csr-ours"
	if !slices.Contains(told, "the kubelet of node node-cp-1 waits for its serving certificate; do not approve request \"csr-greedy\" "+
		"before you know why: it asks for api.example.com, which Node node-cp-1 does not have") {
		t.Errorf("told:\n%s", strings.Join(told, "\n"))
	}
	if !slices.Contains(told, want) || strings.Contains(strings.Join(told, "\n"), "csr-other") || strings.Contains(strings.Join(told, "\n"), "csr-approved") {
		t.Errorf("told:\n%s", strings.Join(told, "\n"))
	}
	if notes := w.engine().env.Journal.Record("external/kubelet@cp-1").Notes; !slices.Contains(notes, want) {
		t.Errorf("notes: %v", notes)
	}
}

func TestACanaryIsWatchedBeforeTheNextOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.kubeletRuns("cp-1")
	first := plainStep("cp-1")
	first.Canary = true
	p := w.given(first, plainStep("cp-2"))
	p.Options.Soak = "60s"
	w.refresh(p)
	var changed time.Time
	w.more = func() { // 30 s after the change the node goes down for good
		if external(flagsOf(w.lives["cp-1"])) && !changed.IsZero() && w.clock.Now().Sub(changed) > 30*time.Second {
			w.heartbeat("cp-1", corev1.ConditionFalse)
		}
	}
	w.fate = func(host string, flags map[string]string) *start {
		if host == "cp-1" && external(flags) && changed.IsZero() {
			changed = w.clock.Now()
		}
		return nil
	}
	_, err := w.run(p)
	says(t, err, "node node-cp-1 is not as it was before: it is not Ready", "has its old flags again")
	if w.restarts["kubelet@cp-2"] != 0 {
		t.Error("another node was changed")
	}
}

// TestBatchesWaitForTheCanaryOfEachKind: the first canary holds, and the second one gets worse while it is watched.
func TestBatchesWaitForTheCanaryOfEachKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.kubeletRuns("cp-2")
	steps := append([]v1.Step{plainStep("cp-1"), plainStep("cp-2")}, batchOfHosts(4, 2)[2:]...)
	steps[0].Canary, steps[1].Canary = true, true
	p := w.givenWithin("2", steps...)
	p.Options.Soak = "60s"
	w.refresh(p)
	var changed time.Time
	w.more = func() { // 30 s after the change the node goes down for good
		if external(flagsOf(w.lives["cp-2"])) && !changed.IsZero() && w.clock.Now().Sub(changed) > 30*time.Second {
			w.heartbeat("cp-2", corev1.ConditionFalse)
		}
	}
	w.fate = func(host string, flags map[string]string) *start {
		if host == "cp-2" && external(flags) && changed.IsZero() {
			changed = w.clock.Now()
		}
		return nil
	}
	_, err := w.run(p)
	says(t, err, "node node-cp-2 is not as it was before: it is not Ready", "has its old flags again")
	if w.running("cp-1", "cloud-provider") != "external" || w.restarts["kubelet@cp-1"] != 1 {
		t.Errorf("the first canary did not stay: %d restarts", w.restarts["kubelet@cp-1"])
	}
	if w.restarts["kubelet@cp-3"]+w.restarts["kubelet@cp-4"] != 0 {
		t.Errorf("a batch was begun: %v", w.restarts)
	}
}

func flagsOf(k *kubeletLife) map[string]string {
	out := map[string]string{}
	if k == nil {
		return out
	}
	for _, a := range k.args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		out[name] = value
	}
	return out
}

// refresh writes a plan that was changed into the journal.
func (w *world) refresh(p *v1.Plan) {
	w.t.Helper()
	w.unjudged = true
	if _, err := journal.Create(
		w.t.Context(),
		w.kube,
		v1.Journal{Run: "run-1", Started: w.clock.Now(), Phase: v1.RunApplying, Plan: *p},
		w.snapshot(),
	); err != nil {
		w.t.Fatal(err)
	}
}

func TestAnUndoThatCannotWriteIsGoneOnWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	before := w.files()
	w.fate = func(_ string, flags map[string]string) *start {
		if external(flags) {
			w.full["cp-1"] = true
			return &start{err: errors.New("exit status 1")}
		}
		return nil
	}
	p := w.given(plainStep("cp-1"))
	_, err := w.run(p)
	says(t, err, "exit status 1. The old files of the kubelet on host cp-1 could not be put back, and the same command tries that first", "no space left on device")
	w.full["cp-1"] = false
	_, err = w.run(p)
	says(t, err, "has its old flags again")
	w.same(before)
}

func TestTheWayBackByHandIsSaidWhereAHostIsCutOff(t *testing.T) {
	t.Parallel()
	gone := &hostaccess.UnreachableError{Host: "w-1", Err: errors.New("no session")}
	step := v1.Step{Kind: v1.StepKubelet, Host: "w-1", Path: "/var/lib/kubelet/kubeadm-flags.env"}
	rec := v1.StepRecord{
		Backup:      "/b/flags",
		AfterSHA256: "x",
		Files:       []v1.FileRecord{{Path: "/etc/default/kubelet", Backup: "/b/default", AfterSHA256: "y"}, {Path: "/etc/untouched", Backup: "/b/untouched"}},
	}
	err := kubelet.CutOffError(step, rec, gone)
	says(
		t,
		err,
		gone.Error(),
		"cp /b/flags /var/lib/kubelet/kubeadm-flags.env",
		"cp /b/default /etc/default/kubelet",
		"systemctl daemon-reload && systemctl restart kubelet",
	)
	if !hostaccess.IsUnreachable(err) || strings.Contains(err.Error(), "untouched") {
		t.Errorf("error: %v", err)
	}
	if err := kubelet.CutOffError(step, v1.StepRecord{Backup: "/b/flags"}, gone); !errors.Is(err, gone) || err.Error() != gone.Error() {
		t.Errorf("nothing was changed, and the error is %v", err)
	}
	if other := errors.New("a file"); kubelet.CutOffError(step, rec, other).Error() != other.Error() {
		t.Error("another error was changed")
	}
}

func TestAFileOfAKubeletThatNoStepChangesMakesThePlanStale(t *testing.T) {
	t.Parallel()
	unit := "/etc/systemd/system/kubelet.service"
	for name, meddle := range map[string]func(w *world){
		"an environment file changes": func(w *world) { w.write("cp-1", defaultsFile, "KUBELET_EXTRA_ARGS=--v=9\n", 0o644) },
		"a drop-in comes": func(w *world) {
			w.write("cp-1", unit+".d/99-mine.conf", "[Service]\nEnvironment=X=--cloud-provider=aws\n", 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.write("cp-1", flagsFile, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws\"\n", 0o644)
			w.write("cp-1", defaultsFile, "KUBELET_EXTRA_ARGS=--v=2\n", 0o644)
			w.write(
				"cp-1",
				unit,
				"[Service]\nEnvironmentFile=-"+flagsFile+"\nEnvironmentFile=-"+defaultsFile+"\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
				0o644,
			)
			p := w.given(plainStep("cp-1"))
			p.Facts = append(p.Facts, v1.Fact{ID: "kubelet-files:cp-1", Value: defaultsFile + " " + unit + " " + flagsFile},
				v1.Fact{ID: "file:cp-1:" + defaultsFile, Value: hostaccess.SHA256([]byte("KUBELET_EXTRA_ARGS=--v=2\n"))})
			for _, f := range p.Facts[1:] {
				p.Steps[0].Requires = append(p.Steps[0].Requires, f.ID)
			}
			slices.SortFunc(p.Facts, func(a, b v1.Fact) int { return strings.Compare(a.ID, b.ID) })
			o := step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, Clock: w.clock}
			if err := precondition.Preflight(t.Context(), o, p); err != nil {
				t.Fatalf("nothing was changed: %v", err)
			}
			meddle(w)
			err := precondition.Preflight(t.Context(), o, p)
			if _, ok := errors.AsType[*step.StaleError](err); !ok {
				t.Errorf("error: %v", err)
			}
			if name == "a drop-in comes" {
				says(t, err, "the files that start the kubelet on host cp-1 are others by now (+ "+unit+".d/99-mine.conf)")
			} else {
				says(t, err, defaultsFile+" on host cp-1 was changed outside this migration")
			}
		})
	}
}

func TestACloudProviderInAVariableOfAnyNameIsChangedOrRefused(t *testing.T) {
	t.Parallel()
	const env, file = "/etc/kubernetes/kubelet.env", "KUBELET_CLOUDPROVIDER=\"--cloud-provider=aws --cloud-config=/x\"\nKUBELET_ARGS=\"--v=2\"\n"
	for name, c := range map[string]struct{ start, want, says string }{
		"standing alone": {"$KUBELET_ARGS $KUBELET_CLOUDPROVIDER", "KUBELET_CLOUDPROVIDER=\"--cloud-provider=external\"\nKUBELET_ARGS=\"--v=2\"\n", ""},
		"in one word with a flag": {"--cloud-config=${KUBELET_CONFIG_FILE} $KUBELET_ARGS $KUBELET_CLOUDPROVIDER", "",
			"would still be started with --cloud-config= of /etc/systemd/system/kubelet.service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.write("cp-1", env, file, 0o600)
			w.write("cp-1", "/etc/systemd/system/kubelet.service", "[Service]\nEnvironmentFile="+env+"\nExecStart=/usr/bin/kubelet "+c.start+"\n", 0o644)
			s := plainStep("cp-1")
			s.Path, s.Edits = env, []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"}}
			e := w.engineFor(t)
			files, err := kubelet.Kubelet{Env: e.env}.Contents(t.Context(), s)
			if c.says != "" {
				says(t, err, c.says, "host cp-1", "write the flag out in ExecStart=")
				return
			}
			if err != nil || len(files) != 1 || string(files[0].Want) != c.want {
				t.Errorf("error %v, files %+v", err, files)
			}
		})
	}
}
