package migrate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
)

// Names of the ConfigMaps in kube-system.
const (
	JournalName = "transplant-journal"
	BeforeName  = "transplant-before"
)

// Keys of the journal's ConfigMap. Versions from before there were numbers of schemas read journal.json.gz, and left out what they did not know when they wrote
// it back. It holds a note now that makes them refuse the journal and say why.
const (
	journalKey  = "document.json.gz"
	earlierKey  = "journal.json.gz"
	snapshotKey = "journal.json.gz"
)

// chunk keeps a ConfigMap below the API server's limit of 1 MiB for the whole object.
const chunk = 900_000

// writeBudget is for how long a write of the journal is tried while API servers restart under a load balancer.
const writeBudget = 60 * time.Second

// ErrNoJournal says that no migration was started on this cluster.
var ErrNoJournal = errors.New("no migration was started on this cluster: run transplant apply")

// Journal keeps what was started in the cluster, compressed, in one ConfigMap: whoever has the kubeconfig can go on where somebody else stopped.
type Journal struct {
	home Home
	mu   sync.Mutex
	doc  v1.Journal
	rv   string
}

// Open reads the journal of the cluster; ErrNoJournal when there is none.
func Open(ctx context.Context, kube kubernetes.Interface) (*Journal, error) {
	return InCluster(kube).Open(ctx)
}

// Open reads the journal; ErrNoJournal when there is none.
func (h Home) Open(ctx context.Context) (*Journal, error) {
	cm, err := h.maps().Get(ctx, h.name(JournalName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoJournal
	} else if err != nil {
		return nil, fmt.Errorf("reading the journal ConfigMap %s: %w", h.at(JournalName), err)
	}
	doc, err := ReadJournal(cm)
	if err != nil {
		return nil, err
	}
	return &Journal{home: h, rv: cm.ResourceVersion, doc: *doc}, nil
}

// ReadJournal reads what the journal's ConfigMap holds.
func ReadJournal(cm *corev1.ConfigMap) (*v1.Journal, error) {
	object := fmt.Sprintf("journal ConfigMap %s/%s", cm.Namespace, cm.Name)
	data := cm.BinaryData[journalKey]
	if data == nil {
		data = cm.BinaryData[earlierKey]
	}
	raw, err := unpack(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	var doc v1.Journal
	if err := (document.Form{Object: object, Kind: v1.KindJournal, Known: v1.JournalSchema}).Read(raw, &doc); err != nil {
		return nil, err
	}
	for _, p := range []*v1.Plan{&doc.Plan, doc.Rollback} {
		if p == nil {
			continue
		}
		if err := (document.Form{Object: "the plan in " + object, Known: v1.PlanSchema}).Judge(p.Schema, p.ToolVersion); err != nil {
			return nil, err
		}
	}
	return &doc, nil
}

// Create starts the journal of a new run on a cluster, as the method of that name does.
func Create(ctx context.Context, kube kubernetes.Interface, doc v1.Journal, before *v1.Snapshot) (*Journal, error) {
	return InCluster(kube).Create(ctx, doc, before)
}

// BegunError says that a journal is of a run that was begun and is not finished. It alone knows the backups that a rollback needs.
type BegunError struct{ Run, Phase string }

func (e *BegunError) Error() string {
	return fmt.Sprintf("migration %s is %s: its journal holds the only record of its backups, and is not replaced; go on with it, or take it back", e.Run, e.Phase)
}

// Create starts the journal of a new run, and keeps the snapshot from before it. The journal of an older, ended run is replaced, and so is one of which no step
// was begun; that of a run under way is a *BegunError.
func (h Home) Create(ctx context.Context, doc v1.Journal, before *v1.Snapshot) (*Journal, error) {
	j := &Journal{home: h, doc: doc}
	if j.doc.ToolVersion == "" && before != nil {
		j.doc.ToolVersion = before.ToolVersion
	}
	switch old, err := h.Open(ctx); {
	case err == nil && old.begun():
		return nil, &BegunError{Run: old.doc.Run, Phase: old.doc.Phase}
	case err == nil:
		j.rv = old.rv
	case !errors.Is(err, ErrNoJournal):
		return nil, err
	}
	if err := h.saveBefore(ctx, before); err != nil { // not before it is certain that no rollback needs the one that is there
		return nil, err
	}
	return j, j.write(ctx)
}

// begun tells that a run has begun to change something and is not finished.
func (j *Journal) begun() bool {
	return j.doc.Phase == v1.RunRollingBack || j.doc.Phase == v1.RunApplying && (len(j.doc.Records) > 0 || len(j.doc.Without) > 0)
}

// Doc returns a copy of the journal.
func (j *Journal) Doc() v1.Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	doc := j.doc
	doc.Records = append([]v1.StepRecord(nil), j.doc.Records...)
	return doc
}

// Record returns what is written about a step; its Result is empty when nothing is.
func (j *Journal) Record(id string) v1.StepRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.doc.Records {
		if r.ID == id {
			return apart(r)
		}
	}
	return v1.StepRecord{}
}

// apart is a record that shares nothing with r which a step changes in place: steps of a batch run side by side, and the journal is written with all of
// their records while each goes on with its own.
func apart(r v1.StepRecord) v1.StepRecord {
	if r.Undo != nil {
		undo := *r.Undo
		r.Undo = &undo
	}
	r.Files, r.Handovers, r.Notes = slices.Clone(r.Files), slices.Clone(r.Handovers), slices.Clone(r.Notes)
	r.Flags = maps.Clone(r.Flags)
	return r
}

// Save writes what happened to a step.
func (j *Journal) Save(ctx context.Context, rec v1.StepRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	rec = apart(rec)
	found := false
	for i := range j.doc.Records {
		if j.doc.Records[i].ID == rec.ID {
			j.doc.Records[i], found = rec, true
		}
	}
	if !found {
		j.doc.Records = append(j.doc.Records, rec)
	}
	return j.write(ctx)
}

// SetPhase writes the phase of the run; rollback is its plan once one was made.
func (j *Journal) SetPhase(ctx context.Context, phase string, rollback *v1.Plan, ended *time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doc.Phase, j.doc.Ended = phase, ended
	if rollback != nil {
		j.doc.Rollback = rollback
	}
	return j.write(ctx)
}

// writtenBy is the version of the program that writes from now on.
func (j *Journal) writtenBy(toolVersion string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if toolVersion != "" {
		j.doc.ToolVersion = toolVersion
	}
}

func (j *Journal) write(ctx context.Context) error {
	j.doc.TypeMeta = v1.Type(v1.KindJournal) // also of one that was begun by an earlier version: what is written now, that one does not know
	data, err := pack(j.doc)
	if err != nil {
		return fmt.Errorf("packing the journal: %w", err)
	}
	if len(data) > chunk {
		return fmt.Errorf("the journal is %d bytes when compressed, more than a ConfigMap holds: migrate with fewer hosts in --host-access at a time", len(data))
	}
	note, err := noteToEarlier(j.doc.ToolVersion)
	if err != nil {
		return fmt.Errorf("packing the journal: %w", err)
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: j.home.name(JournalName), Namespace: j.home.namespace(), ResourceVersion: j.rv, Labels: map[string]string{"app.kubernetes.io/managed-by": "transplant"}},
		Data:       map[string]string{"run": j.doc.Run, "phase": j.doc.Phase, "steps": strconv.Itoa(len(j.doc.Records))},
		BinaryData: map[string][]byte{journalKey: data, earlierKey: note},
	}
	var saved *corev1.ConfigMap
	err = Retry(ctx, writeBudget, func(ctx context.Context) error {
		var err error
		if j.rv == "" {
			saved, err = j.home.maps().Create(ctx, cm, metav1.CreateOptions{})
		} else {
			saved, err = j.home.maps().Update(ctx, cm, metav1.UpdateOptions{})
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return j.lostAnswer(ctx, cm, &saved, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the journal ConfigMap %s: %w", j.home.at(JournalName), err)
	}
	j.rv = saved.ResourceVersion
	return nil
}

// lostAnswer tells a write whose answer got lost while an API server restarted from one by somebody else.
func (j *Journal) lostAnswer(ctx context.Context, want *corev1.ConfigMap, saved **corev1.ConfigMap, conflict error) error {
	live, err := j.home.maps().Get(ctx, j.home.name(JournalName), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if maps.EqualFunc(live.BinaryData, want.BinaryData, bytes.Equal) {
		*saved = live
		return nil
	}
	return fmt.Errorf("somebody else wrote it: %w", conflict)
}

// noteToEarlier is what a version from before there were numbers of schemas finds where it looks for the journal. It refuses an apiVersion that it does
// not know, and says "ConfigMap ... holds <apiVersion> Journal, which this version of transplant does not know: use the version that wrote it".
func noteToEarlier(toolVersion string) ([]byte, error) {
	by := ""
	if toolVersion != "" {
		by = ", of transplant " + toolVersion
	}
	return pack(v1.TypeMeta{APIVersion: fmt.Sprintf("%s (schema %d%s)", v1.GroupVersion, v1.JournalSchema, by), Kind: v1.KindJournal})
}

// Before reads the snapshot from before the migration.
func Before(ctx context.Context, kube kubernetes.Interface) (*v1.Snapshot, error) {
	return InCluster(kube).Before(ctx)
}

// Before reads the snapshot from before the migration.
func (h Home) Before(ctx context.Context) (*v1.Snapshot, error) {
	var packed []byte
	for i := 0; ; i++ {
		cm, err := h.maps().Get(ctx, h.beforeName(i), metav1.GetOptions{})
		if apierrors.IsNotFound(err) && i > 0 {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the snapshot from before the migration, ConfigMap %s/%s: %w", h.namespace(), h.beforeName(i), err)
		}
		packed = append(packed, cm.BinaryData[snapshotKey]...)
		if cm.Data["last"] == "true" {
			break
		}
	}
	object := fmt.Sprintf("snapshot from before the migration, ConfigMap %s/%s", h.namespace(), h.beforeName(0))
	raw, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	var s v1.Snapshot
	if err := (document.Form{Object: object, Kind: v1.KindSnapshot, Known: v1.SnapshotSchema}).Read(raw, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (h Home) beforeName(i int) string {
	if i == 0 {
		return h.name(BeforeName)
	}
	return h.name(BeforeName) + "-" + strconv.Itoa(i)
}

func (h Home) saveBefore(ctx context.Context, s *v1.Snapshot) error {
	kept := *s
	kept.TypeMeta = v1.Type(v1.KindSnapshot)
	data, err := pack(kept)
	if err != nil {
		return fmt.Errorf("packing the snapshot: %w", err)
	}
	for i := 0; ; i++ {
		part := data[:min(chunk, len(data))]
		data = data[len(part):]
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: h.beforeName(i), Namespace: h.namespace(), Labels: map[string]string{"app.kubernetes.io/managed-by": "transplant"}},
			Data:       map[string]string{"last": strconv.FormatBool(len(data) == 0)},
			BinaryData: map[string][]byte{snapshotKey: part},
		}
		err := Retry(ctx, writeBudget, func(ctx context.Context) error {
			_, err := h.maps().Create(ctx, cm, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				_, err = h.maps().Update(ctx, cm, metav1.UpdateOptions{})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("keeping the snapshot from before the migration in ConfigMap %s/%s: %w", h.namespace(), h.beforeName(i), err)
		}
		if len(data) == 0 {
			return nil
		}
	}
}

// packers are kept: each holds a megabyte, and a journal is written twice for each step, also while nobody owns the loops. That is why they are
// quick rather than thorough, too.
var packers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

func pack(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&b)
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil { // writes what is still held back
		return nil, err
	}
	return b.Bytes(), nil
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("it is not what transplant wrote: %w", err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("it is cut short: %w", err)
	}
	return raw, nil
}

// Retry calls f until it succeeds, its error is not one of a restarting API server, or the budget is spent.
func Retry(ctx context.Context, budget time.Duration, f func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, budget, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		if last == nil {
			return true, nil
		}
		if !Transient(last) {
			return false, last
		}
		return false, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}
