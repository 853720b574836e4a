package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/jsonweight"
)

// journalParts is how many ConfigMaps a journal may have next to its first one: transplant-journal-1 and so on. The
// roles in deploy/rbac name them.
const journalParts = 24

// Names are the names of the ConfigMaps in which a journal may be kept. The first one is the head, which names those of
// the others that count.
func Names() []string {
	out := []string{Name}
	for i := range journalParts {
		out = append(out, partName(Name, i+1))
	}
	return out
}

func partName(head string, number int) string { return head + "-" + strconv.Itoa(number) }

// head is the journal as its first ConfigMap holds it. A plan and records that are in parts are not in it.
type head struct {
	v1.Journal `json:",inline"`
	Kept       kept `json:"kept,omitzero"`
}

// kept says where the rest of a journal is.
type kept struct {
	// Incomplete reports whether the parts of a run are still being written, of which no step was begun.
	Incomplete bool `json:"incomplete,omitempty"`
	// Recent are the records that are newer than those in parts.
	Recent []placedRecord `json:"recent,omitempty"`
	// Parts in the order in which they count: of two records in the same place, the later one is the record.
	Parts []part `json:"parts,omitempty"`
}

// placedRecord is a record and its place among the journal's.
type placedRecord struct {
	At     int           `json:"at"`
	Record v1.StepRecord `json:"record"`
}

// part is a ConfigMap that holds a piece of a journal. One whose content has another sum is of another moment, or was
// changed.
type part struct {
	Name   string `json:"name"`
	Holds  string `json:"holds"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// What a part holds.
const (
	holdsPlan     = "plan"
	holdsRollback = "rollback"
	holdsRecords  = "records"
)

const partKey = "part.json.gz"

// Reader reads a journal wherever it is kept. It remembers the parts that it has read, which never change under their
// sum.
type Reader struct {
	home    ObjectLocation
	plans   map[string]*v1.Plan
	records map[string][]placedRecord
	// weights are what plans and records take of the memory that a journal may take.
	weights map[string]int64
	// used are the sums of what the last head names; the rest is forgotten.
	used map[string]bool
}

// NewReader returns a reader of the journal of a home.
func NewReader(h ObjectLocation) *Reader {
	return &Reader{
		home:    h,
		plans:   map[string]*v1.Plan{},
		records: map[string][]placedRecord{},
		weights: map[string]int64{},
	}
}

// Read reads the journal whose head is given; nil while the parts of one that has not begun are written.
func (r *Reader) Read(ctx context.Context, cm *corev1.ConfigMap) (*v1.Journal, error) {
	s, err := r.readJournal(ctx, cm)
	if err != nil || s.incomplete {
		return nil, err
	}
	return &s.doc, nil
}

// stored is a journal as it was read, and where it is kept.
type stored struct {
	doc        v1.Journal
	head       *corev1.ConfigMap
	incomplete bool
	where      layout
	// recent are the places of the records that are in no part.
	recent map[int]bool
	// versions of the parts, by name.
	versions map[string]string
	// left is how many bytes of memory the rest of the journal may take, of limit.
	left, limit int64
}

// maxMemory bounds what a journal takes of its reader's memory, all parts together, and so what the snapshot from
// before takes. The journal of 5,000 workers was measured to take 43 MiB at the end of its rollback.
const maxMemory = 256 << 20

// reservePiece takes what a piece of the journal will take from what is left of the memory for it.
func (s *stored) reservePiece(raw []byte, into reflect.Type) (int64, error) {
	weight, err := jsonweight.Of(raw, into, s.left)
	if heavy, is := errors.AsType[*jsonweight.TooHeavyError](err); is {
		heavy.Limit = s.limit // of all pieces together, not what the ones before have left
	}
	s.left -= weight
	return weight, err
}

// reserveWeight takes the weight of a piece that is remembered.
func (s *stored) reserveWeight(weight int64) error {
	if s.left -= weight; s.left < 0 {
		return &jsonweight.TooHeavyError{Limit: s.limit}
	}
	return nil
}

// readTries is how often a journal is read that goes on while it is read.
const readTries = 10

// readJournal reads the journal of a head. When a part is not what the head says, the run has gone on, and there is a
// new head.
func (r *Reader) readJournal(ctx context.Context, cm *corev1.ConfigMap) (*stored, error) {
	var gone *partError
	for range readTries {
		r.used = map[string]bool{}
		s, err := r.assemble(ctx, cm)
		if !errors.As(err, &gone) {
			maps.DeleteFunc(r.plans, func(sum string, _ *v1.Plan) bool { return !r.used[sum] })
			maps.DeleteFunc(r.records, func(sum string, _ []placedRecord) bool { return !r.used[sum] })
			maps.DeleteFunc(r.weights, func(sum string, _ int64) bool { return !r.used[sum] })
			return s, err
		}
		now, err := r.home.Maps().Get(ctx, cm.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the journal ConfigMap %s: %w", r.home.Describe(Name), err)
		}
		if now.ResourceVersion == cm.ResourceVersion {
			return nil, gone
		}
		cm = now
	}
	return nil, fmt.Errorf("%w, %d times in a row while another client wrote it: run the same command again", gone, readTries)
}

// partError says that a part is not the one that the head names.
type partError struct{ head, part, what string }

func (e *partError) Error() string {
	return fmt.Sprintf(
		"journal ConfigMap %s names its part %s, which %s: put that ConfigMap back from a backup of the cluster; without it what the run did is not known",
		e.head,
		e.part,
		e.what,
	)
}

// assemble puts a journal together.
func (r *Reader) assemble(ctx context.Context, cm *corev1.ConfigMap) (*stored, error) {
	object := fmt.Sprintf("journal ConfigMap %s/%s", r.home.NamespaceOrDefault(), cm.Name)
	data := cm.BinaryData[journalKey]
	if data == nil {
		data = cm.BinaryData[earlierKey]
	}
	raw, err := unpack(data, r.home.memoryLimit())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	first := &stored{left: r.home.memoryLimit(), limit: r.home.memoryLimit()}
	if _, err := first.reservePiece(raw, reflect.TypeFor[head]()); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	var h head
	if err := (document.Form{Object: object, Kind: v1.KindJournal, Known: v1.JournalSchema}).Read(raw, &h); err != nil {
		return nil, err
	}
	s := &stored{
		doc:        h.Journal,
		head:       cm,
		incomplete: h.Kept.Incomplete,
		recent:     map[int]bool{},
		versions:   map[string]string{},
		left:       first.left,
		limit:      first.limit,
	}
	if len(h.Kept.Parts) == 0 && len(h.Kept.Recent) == 0 {
		for i := range s.doc.Records { // a journal in one piece, as earlier versions wrote it
			s.doc.Records[i] = maskRecord(s.doc.Records[i])
			s.recent[i] = true
		}
		return s, judgePlans(object, &s.doc)
	}
	if err := r.takeIn(ctx, object, s, h.Kept); err != nil {
		return nil, err
	}
	return s, judgePlans(object, &s.doc)
}

// takeIn adds what is in parts.
func (r *Reader) takeIn(ctx context.Context, object string, s *stored, k kept) error {
	if len(k.Parts) > journalParts {
		return fmt.Errorf(
			"%s names %d parts, and a journal has %d at most: transplant did not write it",
			object,
			len(k.Parts),
			journalParts,
		)
	}
	for _, holds := range []string{holdsPlan, holdsRollback} {
		p, parts, err := r.plan(ctx, object, s, k.Parts, holds)
		switch {
		case err != nil:
			return err
		case p == nil:
		case holds == holdsPlan:
			s.doc.Plan, s.where.plan = *p, placement{decided: true, parts: parts}
		default:
			s.doc.Rollback, s.where.rollback = p, placement{decided: true, parts: parts}
		}
	}
	var all [][]placedRecord
	for _, p := range k.Parts {
		if p.Holds != holdsRecords {
			continue
		}
		records, err := r.recordsOf(ctx, object, s, p)
		if err != nil {
			return err
		}
		live := recordPart{part: p}
		for _, rec := range records {
			live.at = append(live.at, rec.At)
		}
		s.where.records = append(s.where.records, live)
		all = append(all, records)
	}
	for _, rec := range k.Recent {
		s.recent[rec.At] = true
	}
	if err := s.placeAll(object, append(all, k.Recent)); err != nil {
		return err
	}
	for i, rec := range s.doc.Records {
		if rec.ID == "" {
			return fmt.Errorf(
				"%s has no record in place %d of %d: a part of it is of another moment",
				object,
				i+1,
				len(s.doc.Records),
			)
		}
	}
	return nil
}

// placeAll puts records in their places, the later ones over the earlier, and masks them: earlier versions wrote errors
// as they came. A place beyond the number of records would leave gaps, and could take memory for millions of them.
func (s *stored) placeAll(object string, all [][]placedRecord) error {
	count := 0
	for _, records := range all {
		count += len(records)
	}
	for _, records := range all {
		for _, rec := range records {
			if rec.At < 0 || rec.At >= count {
				return fmt.Errorf("%s holds a record at place %d, where none can be: it has %d", object, rec.At, count)
			}
			if grown := rec.At + 1 - len(s.doc.Records); grown > 0 {
				s.doc.Records = append(s.doc.Records, make([]v1.StepRecord, grown)...)
			}
			s.doc.Records[rec.At] = maskRecord(rec.Record)
		}
	}
	return nil
}

// plan reads the plan that parts hold; nil where none do.
func (r *Reader) plan(
	ctx context.Context,
	object string,
	s *stored,
	all []part,
	holds string,
) (*v1.Plan, []part, error) {
	var parts []part
	var sums []string
	for _, p := range all {
		if p.Holds == holds {
			parts, sums = append(parts, p), append(sums, p.SHA256)
		}
	}
	key := strings.Join(sums, "+")
	r.used[key] = true
	if len(parts) == 0 || r.plans[key] != nil {
		return r.plans[key], parts, s.reserveWeight(r.weights[key])
	}
	var packed []byte
	for _, p := range parts {
		data, err := r.fetch(ctx, s, p)
		if err != nil {
			return nil, nil, err
		}
		packed = append(packed, data...)
	}
	raw, err := unpack(packed, r.home.memoryLimit())
	if err != nil {
		return nil, nil, fmt.Errorf("the %s of %s: %w", holds, object, err)
	}
	weight, err := s.reservePiece(raw, reflect.TypeFor[v1.Plan]())
	if err != nil {
		return nil, nil, fmt.Errorf("the %s of %s: %w", holds, object, err)
	}
	var p v1.Plan
	if err := (document.Form{Object: "the " + holds + " of " + object, Known: v1.PlanSchema}).Read(raw, &p); err != nil {
		return nil, nil, err
	}
	r.plans[key], r.weights[key] = &p, weight
	return &p, parts, nil
}

func (r *Reader) recordsOf(ctx context.Context, object string, s *stored, p part) ([]placedRecord, error) {
	r.used[p.SHA256] = true
	if have, ok := r.records[p.SHA256]; ok {
		return have, s.reserveWeight(r.weights[p.SHA256])
	}
	data, err := r.fetch(ctx, s, p)
	if err != nil {
		return nil, err
	}
	raw, err := unpack(data, r.home.memoryLimit())
	if err != nil {
		return nil, fmt.Errorf("part %s of %s: %w", p.Name, object, err)
	}
	weight, err := s.reservePiece(raw, reflect.TypeFor[[]placedRecord]())
	if err != nil {
		return nil, fmt.Errorf("part %s of %s: %w", p.Name, object, err)
	}
	var out []placedRecord
	if err := document.Strict(raw, &out); err != nil {
		return nil, fmt.Errorf("part %s of %s: %w; use the version of transplant that wrote it", p.Name, object, err)
	}
	for _, rec := range out {
		if rec.At < 0 || rec.Record.ID == "" {
			return nil, fmt.Errorf("part %s of %s holds a record without a place or a step", p.Name, object)
		}
	}
	r.records[p.SHA256], r.weights[p.SHA256] = out, weight
	return out, nil
}

// fetch reads a part, and holds it to the sum in the head.
func (r *Reader) fetch(ctx context.Context, s *stored, p part) ([]byte, error) {
	at := r.home.NamespaceOrDefault() + "/" + p.Name
	cm, err := r.home.Maps().Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, &partError{r.home.Describe(Name), at, "is not there"}
	} else if err != nil {
		return nil, fmt.Errorf("reading part %s of the journal: %w", at, err)
	}
	if hostaccess.SHA256(cm.BinaryData[partKey]) != p.SHA256 {
		return nil, &partError{r.home.Describe(Name), at, "holds something else"}
	}
	s.versions[p.Name] = cm.ResourceVersion
	return cm.BinaryData[partKey], nil
}

// judgePlans refuses plans of a schema that is not known.
func judgePlans(object string, doc *v1.Journal) error {
	for _, p := range []*v1.Plan{&doc.Plan, doc.Rollback} {
		if p == nil {
			continue
		}
		if err := (document.Form{Object: "the plan in " + object, Known: v1.PlanSchema}).Judge(
			p.Schema,
			p.ToolVersion,
		); err != nil {
			return err
		}
	}
	return nil
}
