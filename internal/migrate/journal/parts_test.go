package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

var everyRecord = flag.Bool("migrate.all", false, "write each record of five thousand workers by itself, as the engine does, and go on in another process behind each batch")

// noisy is a record that does not shrink much when it is packed.
func noisy(i int, result v1.StepResult) v1.StepRecord {
	random := make([]byte, 64)
	_, _ = rand.Read(random) // never fails
	return v1.StepRecord{ID: fmt.Sprintf("step-%d", i), Started: noon, Result: result, BackupSHA256: hex.EncodeToString(random)}
}

// noisyPlan is a plan that takes some parts.
func noisyPlan() v1.Journal {
	d := doc()
	for i := range 60 {
		d.Plan.Facts = append(d.Plan.Facts, v1.Fact{ID: fmt.Sprint(i), Value: noisy(i, "").BackupSHA256})
	}
	return d
}

// TestACrashBetweenAnyTwoWritesLeavesOneJournal stops a process after each of its writes: what is read is what was written before, or after.
func TestACrashBetweenAnyTwoWritesLeavesOneJournal(t *testing.T) {
	t.Parallel()
	ignore := cmpopts.IgnoreFields(v1.TypeMeta{}, "Schema")
	for last := 1; ; last++ {
		server := apitest.New(t)
		kube, _ := server.Clients(t)
		home := tiny(InCluster(kube))
		var writes atomic.Int64
		server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "configmaps") || strings.Contains(r.URL.Path, BeforeName) || int(writes.Add(1)) <= last {
				return false
			}
			w.WriteHeader(http.StatusBadRequest) // the process is dead: nothing more arrives
			return true
		}
		j, err := home.Create(t.Context(), noisyPlan(), &v1.Snapshot{})
		before, after, begun := v1.Journal{}, v1.Journal{}, err == nil
		for i := 0; err == nil && i < 25; i++ {
			before = j.Doc()
			if i == 20 {
				rollback := noisyPlan().Plan
				err = j.SetPhase(t.Context(), v1.RunRollingBack, &rollback, nil)
			} else if err = j.Save(t.Context(), noisy(i%12, v1.StepResultStarted)); err == nil {
				before = j.Doc()
				err = j.Save(t.Context(), noisy(i%12, v1.StepResultDone))
			}
			after = j.Doc()
		}
		server.Intercept = nil
		read, openErr := home.Open(t.Context())
		if !begun {
			if !errors.Is(openErr, ErrNoJournal) {
				t.Fatalf("after %d writes: a journal that was not written to the end: %v", last, openErr)
			}
			if _, err := home.Create(t.Context(), noisyPlan(), &v1.Snapshot{}); err != nil {
				t.Fatalf("after %d writes: beginning again: %v", last, err)
			}
			continue
		}
		if openErr != nil {
			t.Fatalf("after %d writes: %v", last, openErr)
		}
		if d := cmp.Diff(before, read.Doc(), ignore); d != "" && cmp.Diff(after, read.Doc(), ignore) != "" {
			t.Fatalf("after %d writes the journal is neither that of before nor that of after (-before +read):\n%s", last, d)
		}
		for i := range 15 { // who goes on writes over what was left
			if err := read.Save(t.Context(), noisy(i, v1.StepResultDone)); err != nil {
				t.Fatalf("after %d writes: going on: %v", last, err)
			}
		}
		again, openErr := home.Open(t.Context())
		if openErr != nil {
			t.Fatalf("after %d writes, gone on with: %v", last, openErr)
		}
		if diff := cmp.Diff(read.Doc(), again.Doc()); diff != "" {
			t.Fatalf("after %d writes, gone on with (-written +read):\n%s", last, diff)
		}
		if err == nil {
			if last < 60 {
				t.Errorf("there were %d writes only", last)
			}
			return
		}
	}
}

func TestAProcessThatIsBehindSpoilsNoPart(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	home := tiny(InCluster(kube))
	behind, err := home.Create(t.Context(), noisyPlan(), &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := behind.Save(t.Context(), noisy(i, v1.StepResultDone)); err != nil {
			t.Fatal(err)
		}
	}
	ahead, err := home.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // goes through many parts while the other one sleeps
		if err := ahead.Save(t.Context(), noisy(i, v1.StepResultDone)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if err := behind.Save(t.Context(), noisy(100+i, v1.StepResultDone)); err == nil || !strings.Contains(err.Error(), "another client wrote") {
			t.Fatalf("the one that is behind wrote: %v", err)
		}
	}
	read, err := home.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ahead.Doc(), read.Doc()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestAReaderFollowsARunThatGoesOn(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	home := tiny(InCluster(kube))
	j, err := home.Create(t.Context(), noisyPlan(), &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	more := func() {
		for range 12 {
			if err := j.Save(t.Context(), noisy(next, v1.StepResultDone)); err != nil {
				t.Error(err)
			}
			next++
		}
	}
	more()
	var head corev1.ConfigMap
	server.Get(t, configMaps+Name, &head)
	reader := NewReader(home)
	if was, err := reader.Read(t.Context(), &head); err != nil || len(was.Records) != 12 {
		t.Fatalf("%d records, %v", len(was.Records), err)
	}
	more() // the parts of this head are gone
	now, err := NewReader(home).Read(t.Context(), &head)
	if err != nil || len(now.Records) != 24 {
		t.Fatalf("a head of before: %v", err)
	}
	if diff := cmp.Diff(ptr.To(j.Doc()), now); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	server.Get(t, configMaps+Name, &head)
	if _, err := reader.Read(t.Context(), &head); err != nil {
		t.Fatal(err)
	}
	gets := server.Requests()["get configmaps"]
	if _, err := reader.Read(t.Context(), &head); err != nil || server.Requests()["get configmaps"] != gets {
		t.Errorf("parts that are known are read again: %v", err)
	}
	if len(reader.records) > len(j.where.records) || len(reader.plans) != 1 {
		t.Errorf("%d parts are remembered, and %d count", len(reader.records), len(j.where.records))
	}
}

func TestAPartThatIsGoneOrChangedIsSaid(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*apitest.Server, string){
		"is not there": func(s *apitest.Server, path string) { s.Delete(path) },
		"holds something else": func(s *apitest.Server, path string) {
			var cm corev1.ConfigMap
			s.Get(t, path, &cm)
			cm.BinaryData[partKey] = []byte("x")
			s.Put(t, &cm)
		},
	} {
		server := apitest.New(t)
		kube, _ := server.Clients(t)
		home := tiny(InCluster(kube))
		j, err := home.Create(t.Context(), noisyPlan(), &v1.Snapshot{})
		if err != nil {
			t.Fatal(err)
		}
		name := j.where.plan.parts[0].Name
		spoil(server, configMaps+name)
		writes := len(server.Writes())
		_, err = home.Open(t.Context())
		want := "journal ConfigMap kube-system/transplant-journal names its part kube-system/" + name + ", which " + what
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
		if _, err := home.Create(t.Context(), doc(), &v1.Snapshot{}); err == nil || len(server.Writes()) != writes {
			t.Errorf("a journal that is damaged was replaced: %v", err)
		}
	}
}

// manyWorkers is a plan for so many workers more than a kept snapshot has, made by the planner from a snapshot, and the snapshot.
func manyWorkers(t *testing.T, path string, count int) (*v1.Plan, *v1.Snapshot) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := &v1.Snapshot{}
	if err := yaml.Unmarshal(data, snap); err != nil {
		t.Fatal(err)
	}
	var node v1.Node
	var like v1.Host
	for _, h := range snap.Hosts {
		like = h
	}
	for _, n := range snap.Nodes {
		node = n
	}
	for i := range count {
		name := fmt.Sprintf("worker-%04d.compute.example.com", i)
		h, n := like, node
		kubelet := *like.Kubelet
		kubelet.SHA256 = noisy(i, "").BackupSHA256[:64]
		h.Name, h.NodeName, h.ControlPlane, h.Components, h.Kubelet = name, "node-"+name, false, nil, &kubelet
		n.Name, n.UID = h.NodeName, fmt.Sprintf("uid-%d", i)
		n.ProviderID = "aws:///us-east-1a/i-" + noisy(i, "").BackupSHA256[:17]
		snap.Hosts, snap.Nodes = append(snap.Hosts, h), append(snap.Nodes, n)
	}
	p, err := plan.Make(snap, v1.Options{MaxUnavailable: "10%"}, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	return p, snap
}

// largest is the largest record that a step comes to: a worker with pods and labels, a drain and four files; lean is it when the step is done.
func largest(s v1.Step, now time.Time, lean bool) v1.StepRecord {
	file := func(path string) v1.FileRecord {
		return v1.FileRecord{
			Path:         path,
			Backup:       "/etc/kubernetes/transplant/backup/20261123-044138/" + strings.ReplaceAll(s.ID, "/", "_") + path,
			BackupSHA256: noisy(0, "").BackupSHA256[:64],
			BackupMode:   "0644",
			AfterSHA256:  noisy(0, "").BackupSHA256[:64],
		}
	}
	main := file("/var/lib/kubelet/kubeadm-flags.env")
	r := v1.StepRecord{
		ID:           s.ID,
		Started:      now,
		Result:       v1.StepResultStarted,
		Backup:       main.Backup,
		BackupSHA256: main.BackupSHA256,
		BackupMode:   "0644",
		Before:       `{"unschedulable":false}`,
		Files: []v1.FileRecord{
			file("/etc/default/kubelet"),
			file("/var/lib/kubelet/config.yaml"),
			file("/etc/systemd/system/kubelet.service.d/10-cloud.conf"),
		},
		Flags: map[string]string{"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf", "node-labels": "role=worker,zone=us-east-1a"},
	}
	if lean {
		r.Ended, r.Result, r.AfterSHA256, r.Notes = &now, v1.StepResultDone, main.AfterSHA256, []string{
			"the certificate csr-" + noisy(0, "").BackupSHA256[:5] + " of " + s.Host + " waits for approval",
		}
		return r
	}
	r.Node = &v1.NodeRecord{
		UID:        noisy(0, "").BackupSHA256[:36],
		ProviderID: "aws:///us-east-1a/i-" + noisy(0, "").BackupSHA256[:17],
		Labels:     map[string]string{},
		PID:        812,
		StartTicks: 99,
	}
	for i := range 110 {
		r.Node.ReadyPods = append(r.Node.ReadyPods, fmt.Sprintf("team-%d/service-%s", i%9, noisy(0, "").BackupSHA256[:16]))
	}
	for i := range 20 {
		r.Node.Labels[fmt.Sprintf("example.com/label-%d", i)] = noisy(0, "").BackupSHA256[:8]
	}
	return r
}

// TestAJournalOfFiveThousandWorkers writes what the engine writes, with five hundred workers at a time, there and back, on an API server that bounds
// ConfigMaps.
func TestAJournalOfFiveThousandWorkers(t *testing.T) {
	t.Parallel()
	const workers, atOnce = 5000, 500
	// Each record is written with so many others, and another process goes on behind so many batches. With -migrate.all each is
	// written by itself, as the engine does, which takes minutes.
	every, reopened := 100, 5
	if *everyRecord {
		every, reopened = 1, 1
	}
	api := apitest.New(t)
	kube, _ := api.Clients(t)
	home := InCluster(kube)
	p, snap := manyWorkers(t, "../../plan/testdata/lab.yaml", workers)
	if err := Fits(p); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var sent, calls, most atomic.Int64
	api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			sent.Add(r.ContentLength)
			calls.Add(1)
			most.Store(max(most.Load(), r.ContentLength))
		}
		return false
	}
	j, err := home.Create(t.Context(), v1.Journal{Run: "20261123-044138", Started: noon, Phase: v1.RunApplying, Plan: *p}, snap)
	if err != nil {
		t.Fatal(err)
	}
	report := func(what string, saves int) {
		bytes := 0
		for _, part := range j.where.parts() {
			bytes += part.Bytes
		}
		t.Logf(
			"%s: %d writes of records in %d calls of %d KiB together (%.1f KiB and %.2f calls a write), largest call %d KiB, now %d parts of %d KiB, %s",
			what,
			saves,
			calls.Load(),
			sent.Load()>>10,
			float64(sent.Load())/1024/float64(max(1, saves)),
			float64(calls.Load())/float64(max(1, saves)),
			most.Load()>>10,
			len(j.where.parts()),
			bytes>>10,
			time.Since(begun).Round(time.Second),
		)
		sent.Store(0)
		calls.Store(0)
	}
	report("begun", 0)
	carryOut := func(steps []v1.Step) (saves int) {
		batches := 0
		for batch := range slices.Chunk(steps, atOnce) {
			for _, lean := range []bool{false, true} {
				for i, s := range batch {
					j.setRecord(largest(s, noon.Add(time.Duration(i)*time.Second), lean))
					if i%every != 0 && i != len(batch)-1 {
						continue
					}
					if err := j.write(t.Context()); err != nil {
						t.Fatal(err)
					}
					saves++
				}
			}
			if batches++; batches%reopened != 0 {
				continue
			}
			again, err := home.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(again.doc.Records) != len(j.doc.Records) || !cmp.Equal(again.doc.Records[len(again.doc.Records)-1], j.doc.Records[len(j.doc.Records)-1]) {
				t.Fatal("what is read is not what was written")
			}
			j = again
		}
		return saves
	}
	report("there", carryOut(p.Steps))
	doc := j.Doc()
	back, err := rollback.Make(&doc, snap, noon)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Steps) < workers {
		t.Fatalf("the way back has %d steps", len(back.Steps))
	}
	if err := j.SetPhase(t.Context(), v1.RunRollingBack, back, nil); err != nil {
		t.Fatal(err)
	}
	report("turned", 0)
	saves := carryOut(back.Steps)
	if perSave := sent.Load() / int64(saves); *everyRecord && (perSave > 32<<10 || calls.Load() > int64(saves)*5/4) || calls.Load() > int64(saves)*4 {
		t.Errorf("%d bytes a write, %d calls for %d writes", perSave, calls.Load(), saves)
	}
	report("back", saves)
	read, err := home.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j.Doc(), read.Doc()); diff != "" {
		t.Error("what is read is not what was written")
	}
	cm, err := home.Maps().Get(t.Context(), Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := NewReader(home).readJournal(t.Context(), cm)
	if err != nil {
		t.Fatal(err)
	}
	if took := maxMemory - whole.left; took < 10<<20 || took > maxMemory/2 {
		t.Errorf("it takes %d MiB of memory, of %d MiB that it may take", took>>20, maxMemory>>20)
	} else {
		t.Logf("it takes %d MiB of memory", took>>20)
	}
	if largest := most.Load(); largest > 1<<20 {
		t.Errorf("a request of %d bytes", largest)
	}
}

func TestAPlanWhoseJournalWouldOutgrowItsConfigMapsIsNotBegun(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	d := doc()
	for i := range 16_000 {
		d.Plan.Steps = append(d.Plan.Steps, v1.Step{ID: fmt.Sprint(i)})
	}
	const want = "the journal of this plan of 16002 steps would take about 21 MiB when compressed; its 25 ConfigMaps hold 17 MiB; nothing was changed; migrate with fewer hosts in --host-access at a time"
	if _, err := Create(t.Context(), kube, d, &v1.Snapshot{}); err == nil || err.Error() != want {
		t.Errorf("error: %v", err)
	}
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("wrote %v", writes)
	}
}

func TestTheLimitOfAConfigMapIsKept(t *testing.T) {
	t.Parallel()
	kube, _ := apitest.New(t).Clients(t)
	home := InCluster(kube)
	home.Sizes = &Sizes{Inline: 8 << 20, Recent: 32 << 10, Part: 8 << 20}
	d := noisyPlan()
	for i := range 20_000 {
		d.Plan.Facts = append(d.Plan.Facts, v1.Fact{ID: fmt.Sprint(i), Value: noisy(i, "").BackupSHA256})
	}
	if _, err := home.Create(t.Context(), d, &v1.Snapshot{}); err == nil || !strings.Contains(err.Error(), "more than a ConfigMap holds") {
		t.Errorf("a head that is too large: %v", err)
	}
}
