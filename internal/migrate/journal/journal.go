// Package journal keeps what a migration has to do and has done, in ConfigMaps of the cluster, and decides what of it
// is read back.
package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/jsonweight"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
)

// SavePause writes a pause into the journal; one that began at the same moment is replaced.
func (j *Journal) SavePause(ctx context.Context, rec v1.PauseRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	rec.By, rec.Reason = mask.Cut(rec.By, maxName), mask.Cut(rec.Reason, maxReason)
	found := false
	for i := range j.doc.Pauses {
		if j.doc.Pauses[i].From.Equal(rec.From) {
			j.doc.Pauses[i], found = rec, true
		}
	}
	if !found {
		j.doc.Pauses = append(j.doc.Pauses, rec)
	}
	if over := len(j.doc.Pauses) - maxPauses; over > 0 {
		j.doc.Pauses = slices.Clone(j.doc.Pauses[over:])
	}
	return j.write(ctx)
}

// Bounds, in bytes, of the texts that the journal keeps. Hosts, kubelets, and accounts that may only pause a run have
// their words in them. A record or a head that is larger than a ConfigMap could not be written any more.
const (
	maxName     = 256
	maxReason   = 1 << 10
	maxNote     = 4 << 10
	maxNotes    = 100
	maxError    = 8 << 10
	maxEvidence = 20
	// maxPauses is how many pauses the journal keeps, and how many stops. The oldest goes first.
	maxPauses = 100
	// shortestStop is what counts as a stop: clocks of two machines differ by less, and a command takes longer to begin.
	shortestStop = time.Second
)

// Names of the ConfigMaps in kube-system.
const (
	Name       = "transplant-journal"
	BeforeName = "transplant-before"
)

// Keys of the journal's ConfigMap. Versions from before there were numbers of schemas read journal.json.gz, and left
// out what they did not know when they wrote it back. It holds a note now that makes them refuse the journal and say
// why.
const (
	journalKey  = "document.json.gz"
	earlierKey  = "journal.json.gz"
	snapshotKey = "journal.json.gz"
)

// chunk keeps a ConfigMap below the API server's limit of 1 MiB for the whole object.
const chunk = 900_000

// ErrNoJournal says that no migration was started on this cluster.
var ErrNoJournal = errors.New("no migration was started on this cluster: compare --context; transplant check begins one")

// Journal keeps what was started in the cluster, compressed, in ConfigMaps: a user with the kubeconfig can continue
// where another one stopped.
type Journal struct {
	Home ObjectLocation
	mu   sync.Mutex
	doc  v1.Journal
	// at is the place of each step's record.
	at map[string]int
	// rv is the version of the head, and head the object as it was read or written last.
	rv   string
	head *corev1.ConfigMap
	// writer tells this process from others that write the same.
	writer string
	// claimed reports whether this process has written the head. begins is that the run has none yet, and incomplete that
	// a process ended while it wrote the head.
	claimed, begins, incomplete bool
	// where the pieces are kept, and the places of the records that have changed since they were put into a part.
	where  layout
	recent map[int]bool
	// versions of the parts, by name, and the parts of a run before.
	versions map[string]string
	left     []part
}

// Of returns the journal of a document that is kept nowhere: it answers, and nothing of it is written.
func Of(doc v1.Journal) *Journal { return &Journal{doc: doc} }

// Open reads the journal of the cluster; ErrNoJournal when there is none.
func Open(ctx context.Context, kube kubernetes.Interface) (*Journal, error) {
	return InCluster(kube).Open(ctx)
}

// Open reads the journal; ErrNoJournal when there is none, or when it was not written to the end and no step was begun.
func (h ObjectLocation) Open(ctx context.Context) (*Journal, error) {
	j, err := h.open(ctx)
	if err == nil && j.incomplete {
		return nil, ErrNoJournal
	}
	return j, err
}

func (h ObjectLocation) open(ctx context.Context) (*Journal, error) {
	cm, err := h.Maps().Get(ctx, h.Name(Name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoJournal
	} else if err != nil {
		return nil, fmt.Errorf("reading the journal ConfigMap %s: %w", h.Describe(Name), err)
	}
	s, err := NewReader(h).readJournal(ctx, cm)
	if err != nil {
		return nil, err
	}
	return h.journalOf(s), nil
}

func (h ObjectLocation) journalOf(s *stored) *Journal {
	return &Journal{
		Home:       h,
		rv:         s.head.ResourceVersion,
		head:       s.head,
		doc:        s.doc,
		where:      s.where,
		recent:     s.recent,
		versions:   s.versions,
		incomplete: s.incomplete,
		writer:     string(uuid.NewUUID()),
	}
}

// Create starts the journal of a new run on a cluster, as the method of that name does.
func Create(ctx context.Context, kube kubernetes.Interface, doc v1.Journal, before *v1.Snapshot) (*Journal, error) {
	return InCluster(kube).Create(ctx, doc, before)
}

// BegunError says that a journal is of a run that was begun and is not finished. It alone knows the backups that a
// rollback needs.
type BegunError struct{ Run, Phase string }

func (e *BegunError) Error() string {
	return fmt.Sprintf(
		"migration %s is %s: its journal holds the only record of its backups, and is not replaced; go on with it, or take it back",
		e.Run,
		e.Phase,
	)
}

// Create starts the journal of a new run, and keeps the snapshot from before it. The journal of an older, ended run is
// replaced, and so is one of which no step was started. That of a run under way is a *BegunError.
func (h ObjectLocation) Create(ctx context.Context, doc v1.Journal, before *v1.Snapshot) (*Journal, error) {
	j := &Journal{
		Home:     h,
		doc:      doc,
		begins:   true,
		recent:   map[int]bool{},
		versions: map[string]string{},
		writer:   string(uuid.NewUUID()),
	}
	for i := range doc.Records {
		j.recent[i] = true
	}
	if j.doc.ToolVersion == "" && before != nil {
		j.doc.ToolVersion = before.ToolVersion
	}
	if err := Fits(&doc.Plan); err != nil {
		return nil, err
	}
	switch old, err := h.open(ctx); {
	case err == nil && old.isUnfinished():
		return nil, &BegunError{Run: old.doc.Run, Phase: old.doc.Phase}
	case err == nil:
		j.rv, j.head, j.versions, j.left = old.rv, old.head, old.versions, old.where.parts()
	case !errors.Is(err, ErrNoJournal):
		return nil, err
	}
	// not before it is certain that no rollback needs the one that is there
	if err := h.saveBefore(ctx, before); err != nil {
		return nil, err
	}
	return j, j.write(ctx)
}

// isUnfinished reports whether a run has begun to change something and is not finished.
func (j *Journal) isUnfinished() bool {
	return !j.incomplete && j.doc.Phase == v1.RunRollingBack ||
		j.doc.Phase == v1.RunApplying && (len(j.doc.Records) > 0 || len(j.doc.Without) > 0)
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
	if at, ok := j.placeOf(id); ok {
		return apart(j.doc.Records[at])
	}
	return v1.StepRecord{}
}

// placeOf is where the record of a step is.
func (j *Journal) placeOf(id string) (int, bool) {
	if j.at == nil {
		j.at = map[string]int{}
		for i, r := range j.doc.Records {
			if _, ok := j.at[r.ID]; !ok {
				j.at[r.ID] = i
			}
		}
	}
	at, ok := j.at[id]
	return at, ok
}

// apart is a record that shares nothing with r which a step changes in place. Steps of a batch run in parallel, and the
// journal is written with all of their records while each goes on with its own.
func apart(r v1.StepRecord) v1.StepRecord {
	if r.Undo != nil {
		undo := *r.Undo
		r.Undo = &undo
	}
	r.Files, r.Handovers, r.Notes = slices.Clone(r.Files), slices.Clone(r.Handovers), slices.Clone(r.Notes)
	r.Flags = maps.Clone(r.Flags)
	return r
}

// maskRecord returns a record whose sentences hold no secret and are cut: an error may quote a command line or an
// answer.
func maskRecord(r v1.StepRecord) v1.StepRecord {
	r.Error, r.Notes = mask.Cut(r.Error, maxError), mask.CutAll(r.Notes[:min(len(r.Notes), maxNotes)], maxNote)
	r.Handovers = slices.Clone(r.Handovers)
	for i := range r.Handovers {
		r.Handovers[i].Note = mask.Cut(r.Handovers[i].Note, maxNote)
	}
	if r.Undo != nil {
		undo := *r.Undo
		undo.Reason = mask.Cut(undo.Reason, maxError) // it quotes the log of a kubelet
		r.Undo = &undo
	}
	return r
}

// Save writes what happened to a step.
func (j *Journal) Save(ctx context.Context, rec v1.StepRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setRecord(rec)
	return j.write(ctx)
}

// setRecord takes a record in, which the next write writes.
func (j *Journal) setRecord(rec v1.StepRecord) {
	rec = maskRecord(apart(rec))
	at, found := j.placeOf(rec.ID)
	if found {
		j.doc.Records[at] = rec
	} else {
		at = len(j.doc.Records)
		j.doc.Records, j.at[rec.ID] = append(j.doc.Records, rec), at
	}
	j.recent[at] = true
}

// SetPhase writes the phase of the run; rollback is its plan once one was made.
func (j *Journal) SetPhase(ctx context.Context, phase string, rollback *v1.Plan, ended *time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doc.Phase, j.doc.Ended = phase, ended
	if rollback != nil {
		j.doc.Rollback, j.where.rollback.decided = rollback, false
	}
	return j.write(ctx)
}

// GoOn notes that a command goes on with a run on which others have worked. From the last sign of them until now no
// command did. The next write writes it.
func (j *Journal) GoOn(now time.Time, by string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := j.doc.LastSign()
	if len(j.doc.Records) == 0 || now.Sub(from) < shortestStop {
		return
	}
	j.doc.Stops = append(slices.Clone(j.doc.Stops), v1.StopRecord{From: from, To: now, By: mask.Cut(by, maxName)})
	if over := len(j.doc.Stops) - maxPauses; over > 0 {
		j.doc.Stops = j.doc.Stops[over:]
	}
}

// WrittenBy is the version of the program that writes from now on.
func (j *Journal) WrittenBy(toolVersion string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if toolVersion != "" {
		j.doc.ToolVersion = toolVersion
	}
}

// noteToEarlier is what a version from before there were numbers of schemas finds where it looks for the journal. It
// refuses an apiVersion that it does not know, and says "ConfigMap ... holds <apiVersion> Journal, which this version
// of transplant does not know: use the version that wrote it".
func noteToEarlier(toolVersion string) ([]byte, error) {
	by := ""
	if toolVersion != "" {
		by = ", of transplant " + toolVersion
	}
	return pack(
		v1.TypeMeta{APIVersion: fmt.Sprintf("%s (schema %d%s)", v1.GroupVersion, v1.JournalSchema, by), Kind: v1.KindJournal},
	)
}

// Before reads the snapshot from before the migration.
func Before(ctx context.Context, kube kubernetes.Interface) (*v1.Snapshot, error) {
	return InCluster(kube).Before(ctx)
}

// Before reads the snapshot from before the migration.
func (h ObjectLocation) Before(ctx context.Context) (*v1.Snapshot, error) {
	var packed []byte
	for i := 0; ; i++ {
		cm, err := h.Maps().Get(ctx, h.beforeName(i), metav1.GetOptions{})
		if apierrors.IsNotFound(err) && i > 0 {
			break
		} else if err != nil {
			return nil, fmt.Errorf(
				"reading the snapshot from before the migration, ConfigMap %s/%s: %w",
				h.NamespaceOrDefault(),
				h.beforeName(i),
				err,
			)
		}
		packed = append(packed, cm.BinaryData[snapshotKey]...)
		if cm.Data["last"] == "true" || i == journalParts { // more than that was never written
			break
		}
	}
	object := fmt.Sprintf("snapshot from before the migration, ConfigMap %s/%s", h.NamespaceOrDefault(), h.beforeName(0))
	raw, err := unpack(packed, h.memoryLimit())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	if _, err := jsonweight.Of(raw, reflect.TypeFor[v1.Snapshot](), h.memoryLimit()); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	var s v1.Snapshot
	if err := (document.Form{Object: object, Kind: v1.KindSnapshot, Known: v1.SnapshotSchema}).Read(raw, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (h ObjectLocation) beforeName(i int) string {
	if i == 0 {
		return h.Name(BeforeName)
	}
	return partName(h.Name(BeforeName), i)
}

// BeforeNames are the names of the ConfigMaps in which the snapshot from before a migration may be kept.
func BeforeNames() []string {
	out := []string{BeforeName}
	for i := range journalParts {
		out = append(out, partName(BeforeName, i+1))
	}
	return out
}

// readable says why a snapshot could not be read for a rollback.
func (h ObjectLocation) readable(raw []byte) error {
	if err := judgeUnpacked(len(raw), h.memoryLimit()); err != nil {
		return err
	}
	_, err := jsonweight.Of(raw, reflect.TypeFor[v1.Snapshot](), h.memoryLimit())
	return err
}

func (h ObjectLocation) saveBefore(ctx context.Context, s *v1.Snapshot) error {
	kept := *s
	kept.TypeMeta = v1.Type(v1.KindSnapshot)
	raw, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("packing the snapshot: %w", err)
	}
	data, err := compress(raw)
	if err != nil {
		return fmt.Errorf("packing the snapshot: %w", err)
	}
	if limit := (journalParts + 1) * chunk; len(data) > limit {
		return fmt.Errorf(
			"the snapshot from before the migration is %d MiB when it is compressed, and the ConfigMaps %s and %s-1 to -%d hold %d MiB; nothing was changed; migrate with fewer hosts in --host-access at a time",
			len(data)>>20,
			h.Name(BeforeName),
			h.Name(BeforeName),
			journalParts,
			limit>>20,
		)
	}
	if err := h.readable(raw); err != nil {
		return fmt.Errorf(
			"the snapshot from before the migration could not be read again: %w: migrate with fewer hosts in --host-access at a time; nothing was changed",
			err,
		)
	}
	for i := 0; ; i++ {
		part := data[:min(chunk, len(data))]
		data = data[len(part):]
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:      h.beforeName(i),
				Namespace: h.NamespaceOrDefault(),
				Labels:    map[string]string{"app.kubernetes.io/managed-by": "transplant"},
			},
			Data:       map[string]string{"last": strconv.FormatBool(len(data) == 0)},
			BinaryData: map[string][]byte{snapshotKey: part},
		}
		err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
			_, err := h.Maps().Create(ctx, cm, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				_, err = h.Maps().Update(ctx, cm, metav1.UpdateOptions{})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf(
				"keeping the snapshot from before the migration in ConfigMap %s/%s: %w",
				h.NamespaceOrDefault(),
				h.beforeName(i),
				err,
			)
		}
		if len(data) == 0 {
			return nil
		}
	}
}

// packers are kept: each holds a megabyte, and a journal is written twice for each step, also while no manager owns the
// loops. That is why they are quick rather than thorough, too.
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
	return compress(raw)
}

func compress(raw []byte) ([]byte, error) {
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

// unpack refuses what unpacks to more than limit bytes: a ConfigMap of zeros would take a gigabyte of its reader.
func unpack(packed []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("it is not what transplant wrote: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("it is cut short: %w", err)
	}
	return raw, judgeUnpacked(len(raw), limit)
}

func judgeUnpacked(size int, limit int64) error {
	if int64(size) > limit {
		return fmt.Errorf("it is larger than %d bytes when it is unpacked, which no journal is", limit)
	}
	return nil
}

// Bounds of what a journal may come to. A record of a worker's kubelet, with what a rollback adds to it, was measured
// to take under recordBytes when it is packed. Four of the ConfigMaps are kept free for parts that are about to replace
// others.
const (
	recordBytes = 700
	capacity    = (journalParts - 4) * chunk
)

// Fits refuses a plan whose journal would outgrow its ConfigMaps. In the middle of a run it could not continue, and
// would have no record for a rollback.
func Fits(p *v1.Plan) error {
	data, err := pack(p)
	if err != nil {
		return fmt.Errorf("packing the plan: %w", err)
	}
	if size := 2 * (len(data) + recordBytes*len(p.Steps)); size > capacity { // the way there and the way back
		return fmt.Errorf(
			"the journal of this plan of %d steps would take about %d MiB when compressed; its %d ConfigMaps hold %d MiB; nothing was changed; migrate with fewer hosts in --host-access at a time",
			len(p.Steps),
			size>>20,
			journalParts+1,
			capacity>>20,
		)
	}
	return nil
}
