package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func doc() v1.Journal {
	return v1.Journal{
		TypeMeta: v1.Type(v1.KindJournal), Run: "run-1", Started: noon, Phase: v1.RunApplying, User: "ops",
		Plan: v1.Plan{TypeMeta: v1.Type(v1.KindPlan), Cluster: v1.Cluster{UID: apitest.UID}, Facts: []v1.Fact{}, Steps: []v1.Step{{ID: "a"}, {ID: "b"}}},
	}
}

func TestAJournalComesBackAsItWasWritten(t *testing.T) {
	kube, _ := apitest.New(t).Clients(t)
	if _, err := Open(t.Context(), kube); !errors.Is(err, ErrNoJournal) {
		t.Fatalf("a cluster without a journal: %v", err)
	}
	before := &v1.Snapshot{TypeMeta: v1.Type(v1.KindSnapshot), TakenAt: noon, Nodes: []v1.Node{{Name: "a", Created: noon}}}
	j, err := Create(t.Context(), kube, doc(), before)
	if err != nil {
		t.Fatal(err)
	}
	ended := noon.Add(time.Minute)
	for _, rec := range []v1.StepRecord{
		{ID: "a", Started: noon, Result: v1.StepResultStarted}, {ID: "b", Started: noon, Result: v1.StepResultStarted},
		{ID: "a", Started: noon, Ended: &ended, Result: v1.StepResultDone, Handovers: []v1.HandoverRecord{{Lease: "l", PID: 7, AcquireTime: noon}}},
	} {
		if err := j.Save(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.SetPhase(t.Context(), v1.RunRollingBack, &v1.Plan{Direction: "rollback", Facts: []v1.Fact{}, Steps: []v1.Step{{ID: "undo/a"}}}, nil); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j.Doc(), again.Doc()); diff != "" {
		t.Errorf("written and read (-written +read):\n%s", diff)
	}
	if r := again.Record("a"); r.Result != v1.StepResultDone || r.Handovers[0].PID != 7 || len(again.Doc().Records) != 2 {
		t.Errorf("records: %+v", again.Doc().Records)
	}
	if r := again.Record("c"); r.Result != "" {
		t.Errorf("a step that nothing is written about: %+v", r)
	}
	have, err := Before(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, have); diff != "" {
		t.Errorf("snapshot from before (-written +read):\n%s", diff)
	}
}

func TestANewRunReplacesAnEndedOne(t *testing.T) {
	kube, _ := apitest.New(t).Clients(t)
	for _, run := range []string{"run-1", "run-2"} {
		d := doc()
		d.Run = run
		if _, err := Create(t.Context(), kube, d, &v1.Snapshot{ToolVersion: run}); err != nil {
			t.Fatal(err)
		}
	}
	j, err := Open(t.Context(), kube)
	if err != nil || j.Doc().Run != "run-2" {
		t.Errorf("journal of %s, %v", j.Doc().Run, err)
	}
	if s, err := Before(t.Context(), kube); err != nil || s.ToolVersion != "run-2" {
		t.Errorf("snapshot of %s, %v", s.ToolVersion, err)
	}
}

func TestTheJournalOfARunUnderWayIsNotReplaced(t *testing.T) {
	begun := []v1.StepRecord{{ID: "a", Result: v1.StepResultStarted, Backup: "/etc/kubernetes/transplant/backup/x"}}
	for _, c := range []struct {
		name     string
		phase    string
		records  []v1.StepRecord
		replaced bool
	}{
		{"a run of which a step was begun", v1.RunApplying, begun, false}, {"a rollback", v1.RunRollingBack, begun, false}, {"a rollback of nothing", v1.RunRollingBack, nil, false},
		{"a run of which no step was begun", v1.RunApplying, nil, true}, {"a run that was executed", v1.RunApplied, begun, true}, {"one that was taken back", v1.RunRolledBack, begun, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			kube, _ := apitest.New(t).Clients(t)
			first, second := doc(), doc()
			first.Phase, first.Records, second.Run = c.phase, c.records, "run-2"
			if _, err := Create(t.Context(), kube, first, &v1.Snapshot{TakenAt: noon}); err != nil {
				t.Fatal(err)
			}
			_, err := Create(t.Context(), kube, second, &v1.Snapshot{TakenAt: noon.Add(time.Hour)})
			var refused *BegunError
			if c.replaced != (err == nil) || err != nil && (!errors.As(err, &refused) || *refused != BegunError{"run-1", c.phase}) {
				t.Fatalf("replaced %v, want %v: %v", err == nil, c.replaced, err)
			}
			j, err := Open(t.Context(), kube)
			if err != nil {
				t.Fatal(err)
			}
			before, err := Before(t.Context(), kube)
			if err != nil {
				t.Fatal(err)
			}
			if (j.Doc().Run == "run-2") != c.replaced || before.TakenAt.Equal(noon) == c.replaced {
				t.Errorf("there is the journal of %s with a snapshot from %s", j.Doc().Run, before.TakenAt)
			}
		})
	}
}

func TestALargeSnapshotIsKeptInPieces(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	before := &v1.Snapshot{TypeMeta: v1.Type(v1.KindSnapshot)}
	random := make([]byte, 20_000) // does not shrink much when it is compressed
	for i := range 60 {
		if _, err := rand.Read(random); err != nil {
			t.Fatal(err)
		}
		before.Nodes = append(before.Nodes, v1.Node{Name: fmt.Sprint(i), ProviderID: hex.EncodeToString(random)})
	}
	if err := InCluster(kube).saveBefore(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	pieces := 0
	for _, w := range server.Writes() {
		if strings.Contains(w, "/configmaps/"+BeforeName) {
			pieces++
		}
	}
	if pieces != 2 {
		t.Errorf("%d pieces", pieces)
	}
	have, err := Before(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, have); diff != "" {
		t.Error("the pieces do not make what was written")
	}
	// A smaller one replaces it, and what is left of the larger one is not read.
	if err := InCluster(kube).saveBefore(t.Context(), &v1.Snapshot{ToolVersion: "small"}); err != nil {
		t.Fatal(err)
	}
	if have, err = Before(t.Context(), kube); err != nil || have.ToolVersion != "small" || len(have.Nodes) != 0 {
		t.Errorf("the smaller one: %v nodes, %v", len(have.Nodes), err)
	}
	server.Delete("/api/v1/namespaces/kube-system/configmaps/" + BeforeName)
	if _, err := Before(
		t.Context(),
		kube,
	); err == nil ||
		!strings.Contains(err.Error(), "snapshot from before the migration, ConfigMap kube-system/transplant-before") {
		t.Errorf("the first piece is gone: %v", err)
	}
}

func TestAJournalThatCannotBeRead(t *testing.T) {
	packed := func(v any) []byte {
		data, err := pack(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	newer := packed(v1.Journal{TypeMeta: v1.TypeMeta{APIVersion: "transplant.dev/v2", Kind: v1.KindJournal}})
	higher, plan := doc(), doc()
	higher.Schema, higher.ToolVersion = v1.JournalSchema+1, "v9.1.0"
	plan.Plan.Schema, plan.Plan.ToolVersion = v1.PlanSchema+1, "v9.1.0"
	good, err := pack(doc())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"no data", nil, "it is not what transplant wrote"},
		{"garbage", []byte("garbage"), "it is not what transplant wrote"},
		{"half of it", good[:len(good)/2], "it is cut short"},
		{"a newer version", newer, "holds transplant.dev/v2 Journal, which this version of transplant does not know: use the version that wrote it"},
		{"a newer schema", packed(higher), "and this version of transplant knows no more than schema 2 of it: use transplant v9.1.0, which wrote it, or a later version"},
		{"a plan of a newer schema", packed(plan), "the plan in journal ConfigMap kube-system/transplant-journal has schema 3"},
		{
			"a field that came later",
			packed(map[string]any{"apiVersion": v1.GroupVersion, "kind": v1.KindJournal, "plan": map[string]any{"steps": []any{map[string]any{"soon": true}}}}),
			`has the field "soon"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := apitest.New(t)
			kube, _ := server.Clients(t)
			for _, key := range []string{earlierKey, journalKey} {
				server.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: component.Namespace}, BinaryData: map[string][]byte{key: c.data}})
				_, err := Open(t.Context(), kube)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "kube-system/transplant-journal") {
					t.Errorf("%s: the error does not say %q: %v", key, c.want, err)
				}
				_, err = Create(t.Context(), kube, doc(), &v1.Snapshot{})
				if writes := server.Writes(); err == nil || len(writes) > 0 {
					t.Errorf("%s: a journal that is not understood was replaced: %v, %v", key, err, writes)
				}
			}
		})
	}
}

func TestTwoWritersOfAJournal(t *testing.T) {
	kube, _ := apitest.New(t).Clients(t)
	mine, err := Create(t.Context(), kube, doc(), &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Save(t.Context(), v1.StepRecord{ID: "a", Result: v1.StepResultStarted}); err != nil {
		t.Fatal(err)
	}
	if err := mine.Save(t.Context(), v1.StepRecord{ID: "b", Result: v1.StepResultStarted}); err == nil || !strings.Contains(err.Error(), "another client wrote it") {
		t.Errorf("a journal that somebody else wrote was overwritten: %v", err)
	}
}

func TestAWriteWhoseAnswerGotLost(t *testing.T) {
	server := apitest.New(t)
	var lost atomic.Bool
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !lost.CompareAndSwap(false, true) {
			return false
		}
		server.ServeHTTP(discard{}, r) // it was written, and the API server died before it could say so
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	kube, _ := server.Clients(t)
	j, err := Create(t.Context(), kube, doc(), &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Save(t.Context(), v1.StepRecord{ID: "a", Result: v1.StepResultStarted}); err != nil || !lost.Load() {
		t.Fatalf("an answer was lost: %v, %v", lost.Load(), err)
	}
	if err := j.Save(t.Context(), v1.StepRecord{ID: "a", Result: v1.StepResultDone}); err != nil {
		t.Errorf("the version that was written is not known: %v", err)
	}
}

// discard is where an answer goes that nobody gets.
type discard struct{}

func (discard) Header() http.Header { return http.Header{} }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func (discard) WriteHeader(int) {}

func TestNoPermissionForTheJournal(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	server.Deny("create", "configmaps")
	_, err := Create(t.Context(), kube, doc(), &v1.Snapshot{})
	if err == nil || !strings.Contains(err.Error(), `cannot create resource "configmaps"`) {
		t.Errorf("the error does not say which verb on what: %v", err)
	}
}

// TestAJournalThatWasWrittenToHurtItsReader ends in an error: the operator reads the journals of all clusters in one process.
func TestAJournalThatWasWrittenToHurtItsReader(t *testing.T) {
	for _, at := range []int{-1, 1, 150_000, 1 << 40} {
		server := apitest.New(t)
		kube, _ := server.Clients(t)
		data, err := pack(head{Journal: doc(), Kept: kept{Recent: []placedRecord{{at, v1.StepRecord{ID: "a"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		server.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: component.Namespace}, BinaryData: map[string][]byte{journalKey: data}})
		if _, err := Open(t.Context(), kube); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a record at place %d", at)) {
			t.Errorf("a record at place %d: %v", at, err)
		}
	}
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	data, err := pack(head{Journal: doc(), Kept: kept{Parts: make([]part, journalParts+1)}})
	if err != nil {
		t.Fatal(err)
	}
	server.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: component.Namespace}, BinaryData: map[string][]byte{journalKey: data}})
	if _, err := Open(t.Context(), kube); err == nil || !strings.Contains(err.Error(), "names 25 parts, and a journal has 24 at most") {
		t.Errorf("more parts than there are: %v", err)
	}
	zeros, err := pack(strings.Repeat("0", 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(zeros, 1000); err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") {
		t.Errorf("a journal that grows without bound: %v", err)
	}
}

// TestTextsOfOthersDoNotFillTheJournal: a host, a kubelet, or an account that may only pause a run, has its words in it. A record or a head
// that no ConfigMap holds would end the run and its rollback.
func TestTextsOfOthersDoNotFillTheJournal(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	j, err := InCluster(kube).Create(t.Context(), doc(), &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	noise := func(n int) string { // words that hardly compress, and look like no secret
		var b strings.Builder
		for word := make([]byte, 3); b.Len() < n; {
			_, _ = rand.Read(word)
			b.WriteString(hex.EncodeToString(word) + " ")
		}
		return b.String()
	}
	long := noise(1<<20) + " --password=hunter2hunter2"
	for i := range 2 * maxPauses {
		at := noon.Add(time.Duration(i) * time.Second)
		if err := j.SavePause(t.Context(), v1.PauseRecord{Pause: v1.Pause{Run: "run-1", By: long, Reason: long}, From: at}); err != nil {
			t.Fatalf("pause %d: %v", i, err)
		}
	}
	notes := slices.Repeat([]string{long}, 3)
	rec := v1.StepRecord{
		ID: "kubelet/cp-1", Result: v1.StepResultStarted, Error: long, Notes: notes,
		Handovers: []v1.HandoverRecord{{Lease: "x", Note: long}}, Undo: &v1.UndoRecord{Reason: long},
	}
	if err := j.Save(t.Context(), rec); err != nil {
		t.Fatalf("a record: %v", err)
	}
	if err := j.Exclude(t.Context(), []v1.HostOut{{Name: "worker-1", By: long, Evidence: notes}}); err != nil {
		t.Fatalf("a host that is excluded: %v", err)
	}
	for i := range 3 { // again and again by a run that is resumed
		taken := []v1.AcceptedDifference{{Difference: "Node/worker-1", Reason: fmt.Sprint(i, long), By: long}, {Difference: "Node/worker-2 taints", Reason: "ours"}}
		if err := j.Accept(t.Context(), taken); err != nil {
			t.Fatalf("a difference that is accepted: %v", err)
		}
	}
	back, err := InCluster(kube).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := back.Doc()
	if a := have.Accepted; len(a) != 2 || !strings.HasPrefix(a[0].Reason, "2") || a[1].Reason != "ours" {
		t.Errorf("accepted are %.100v", a)
	}
	if last := have.Pauses[len(have.Pauses)-1]; len(have.Pauses) != maxPauses || !last.From.Equal(noon.Add((2*maxPauses-1)*time.Second)) {
		t.Errorf("%d pauses, the last one from %s", len(have.Pauses), last.From)
	}
	if kept := back.Record(rec.ID); len(kept.Error) < 1000 || len(kept.Notes) != 3 || len(kept.Undo.Reason) < 1000 || len(kept.Handovers[0].Note) < 1000 {
		t.Errorf("more is cut than has to be: %d, %d", len(kept.Error), len(kept.Notes))
	}
	secret := "reason --password=hunter2hunter2"
	if err := j.SavePause(t.Context(), v1.PauseRecord{Pause: v1.Pause{Run: "run-1", By: "x", Reason: secret}}); err != nil {
		t.Fatal(err)
	}
	if have := j.Doc().Pauses; strings.Contains(have[len(have)-1].Reason, "hunter2") {
		t.Error("a secret in the reason of a pause is kept")
	}
}
