package journal

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
)

// How a journal is written. A small one is in its head alone, and each step writes that. A large one would be megabytes
// a step, so its plan is written once, in parts. Changed records stay in the head until they are too many, and then go
// into a part together. Parts of about the same size are merged, so that there are few of them, and each record is
// written some five times in total.
//
// A part is never changed while a head names it. New content goes into ConfigMaps that no head names. Then the head is
// written, which names all parts with their sums. Then those that it names no longer are deleted. A crash in between
// leaves the journal of before, and some ConfigMaps that are written over later.

// layout is where the pieces of a journal are kept.
type layout struct {
	plan, rollback placement
	records        []recordPart
}

// placement is where a plan is kept: in parts, or in the head where there are none.
type placement struct {
	decided bool
	// inline is how many bytes it takes in the head.
	inline int
	parts  []part
}

// recordPart is a part with the places of the records in it that no later part has.
type recordPart struct {
	part
	at []int
}

// parts are all that a layout has, in the order in which they count.
func (l layout) parts() []part {
	out := slices.Concat(l.plan.parts, l.rollback.parts)
	for _, p := range l.records {
		out = append(out, p.part)
	}
	return out
}

// drafted is a layout that is about to be written.
type drafted struct {
	layout
	// fresh are the contents of the parts that are not there yet, by name.
	fresh map[string][]byte
	taken map[string]bool
	head  string
	Sizes
}

// add gives some content a ConfigMap that no head names.
func (d *drafted) add(holds string, data []byte) (part, error) {
	for i := range journalParts {
		name := partName(d.head, i+1)
		if !d.taken[name] {
			d.taken[name], d.fresh[name] = true, data
			return part{
				Name:   name,
				Holds:  holds,
				SHA256: hostaccess.SHA256(data),
				Bytes:  len(data),
			}, nil
		}
	}
	return part{}, fmt.Errorf(
		"the journal has outgrown its %d ConfigMaps of %d bytes; what was done until now is in it, and the next step was not started; delete nothing, and report this with the size of the cluster",
		journalParts,
		d.Part,
	)
}

// partsLeft is how many ConfigMaps are left.
func (d *drafted) partsLeft() int { return journalParts - len(d.taken) }

// placePlan decides where a plan is kept.
func (d *drafted) placePlan(holds string, p *v1.Plan, where *placement) error {
	if where.decided || p == nil {
		return nil
	}
	data, err := pack(p)
	if err != nil {
		return fmt.Errorf("packing the %s: %w", holds, err)
	}
	*where = placement{decided: true}
	if len(data) <= d.Inline {
		where.inline = len(data)
		return nil
	}
	for piece := range slices.Chunk(data, d.Part) {
		p, err := d.add(holds, piece)
		if err != nil {
			return err
		}
		where.parts = append(where.parts, p)
	}
	return nil
}

// write writes what has changed.
func (j *Journal) write(ctx context.Context) error {
	// also of one that was begun by an earlier version: what is written now, that one does not know
	j.doc.TypeMeta = v1.Type(v1.KindJournal)
	d := &drafted{
		layout: j.where,
		fresh:  map[string][]byte{},
		taken:  map[string]bool{},
		head:   j.Home.Name(Name),
		Sizes:  j.Home.limits(),
	}
	d.records = slices.Clone(d.records)
	for _, p := range j.where.parts() {
		d.taken[p.Name] = true
	}
	if err := d.placePlan(holdsPlan, &j.doc.Plan, &d.plan); err != nil {
		return err
	}
	if err := d.placePlan(holdsRollback, j.doc.Rollback, &d.rollback); err != nil {
		return err
	}
	recent := j.recent
	data, err := j.packHead(d.layout, recent, false)
	if err != nil {
		return err
	}
	if len(recent) > 0 && len(data) > d.plan.inline+d.rollback.inline+d.Recent {
		if err := j.putAway(d); err != nil {
			return err
		}
		recent = map[int]bool{}
		if data, err = j.packHead(d.layout, recent, false); err != nil {
			return err
		}
	}
	if len(data) > chunk {
		return fmt.Errorf(
			"the head of the journal is %d bytes when compressed, more than a ConfigMap holds; it has too many pauses or excluded hosts",
			len(data),
		)
	}
	if len(d.fresh) > 0 {
		if err := j.claim(ctx); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.fresh)) {
		if err := j.writePart(ctx, name, d.fresh[name]); err != nil {
			return err
		}
	}
	if err := j.writeHead(ctx, data); err != nil {
		return err
	}
	before := j.where.parts()
	j.where, j.recent = d.layout, recent
	j.deleteOldParts(ctx, before)
	return nil
}

// packHead packs the head of the journal with these records in it.
func (j *Journal) packHead(l layout, recent map[int]bool, incomplete bool) ([]byte, error) {
	h := head{Journal: j.doc, Kept: kept{Incomplete: incomplete, Parts: l.parts()}}
	h.Records = nil
	if len(l.plan.parts) > 0 || incomplete {
		h.Plan = v1.Plan{TypeMeta: v1.Type(v1.KindPlan)}
	}
	if len(l.rollback.parts) > 0 {
		h.Rollback = nil
	}
	for _, at := range slices.Sorted(maps.Keys(recent)) {
		h.Kept.Recent = append(h.Kept.Recent, placedRecord{at, j.doc.Records[at]})
	}
	data, err := pack(h)
	if err != nil {
		return nil, fmt.Errorf("packing the journal: %w", err)
	}
	return data, nil
}

// putAway moves the recent records into a part, together with those of the last parts while these are not much larger.
func (j *Journal) putAway(d *drafted) error {
	newer := maps.Clone(j.recent)
	for i := len(d.records) - 1; i >= 0; i-- { // what a later part has, counts no longer
		d.records[i].at = slices.DeleteFunc(slices.Clone(d.records[i].at), func(at int) bool { return newer[at] })
		for _, at := range d.records[i].at {
			newer[at] = true
		}
	}
	d.records = slices.DeleteFunc(d.records, func(p recordPart) bool { return len(p.at) == 0 })
	together := slices.Sorted(maps.Keys(j.recent))
	data, err := j.packRecords(together)
	if err != nil {
		return err
	}
	for len(d.records) > 0 {
		last := d.records[len(d.records)-1]
		if last.Bytes > 2*len(data) && d.partsLeft() > 2 {
			break
		}
		more := slices.Sorted(slices.Values(slices.Concat(last.at, together)))
		packed, err := j.packRecords(more)
		if err != nil {
			return err
		}
		if len(packed) > d.Part {
			break
		}
		together, data, d.records = more, packed, d.records[:len(d.records)-1]
	}
	return j.split(d, together, data)
}

// split adds a part for some records, or several where they are too many for one.
func (j *Journal) split(d *drafted, at []int, data []byte) error {
	if len(data) <= d.Part {
		p, err := d.add(holdsRecords, data)
		d.records = append(d.records, recordPart{p, at})
		return err
	}
	if len(at) == 1 {
		return fmt.Errorf(
			"the record of step %s is %d bytes when compressed, more than a ConfigMap holds",
			j.doc.Records[at[0]].ID,
			len(data),
		)
	}
	for _, half := range [][]int{at[:len(at)/2], at[len(at)/2:]} {
		data, err := j.packRecords(half)
		if err != nil {
			return err
		}
		if err := j.split(d, half, data); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) packRecords(at []int) ([]byte, error) {
	out := make([]placedRecord, 0, len(at))
	for _, i := range at {
		out = append(out, placedRecord{i, j.doc.Records[i]})
	}
	data, err := pack(out)
	if err != nil {
		return nil, fmt.Errorf("packing the journal's records: %w", err)
	}
	return data, nil
}

// claim writes the head before this process writes its first part. A process that has lost the lock without noticing
// sees it before it writes a part. One that took the lock knows that no other writes parts any longer.
func (j *Journal) claim(ctx context.Context) error {
	if j.claimed {
		return nil
	}
	if j.begins {
		data, err := j.packHead(layout{}, nil, true)
		if err != nil {
			return err
		}
		return j.writeHead(ctx, data)
	}
	return j.saveHead(ctx, j.headMap(j.head.Data["phase"], j.head.BinaryData))
}

func (j *Journal) writeHead(ctx context.Context, data []byte) error {
	note, err := noteToEarlier(j.doc.ToolVersion)
	if err != nil {
		return fmt.Errorf("packing the journal: %w", err)
	}
	return j.saveHead(ctx, j.headMap(j.doc.Phase, map[string][]byte{journalKey: data, earlierKey: note}))
}

func (j *Journal) headMap(phase string, data map[string][]byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      j.Home.Name(Name),
			Namespace: j.Home.NamespaceOrDefault(),
			Labels:    map[string]string{"app.kubernetes.io/managed-by": "transplant"},
		},
		Data: map[string]string{
			"run":    j.doc.Run,
			"phase":  phase,
			"steps":  strconv.Itoa(len(j.doc.Records)),
			"writer": j.writer,
		},
		BinaryData: data,
	}
}

// saveHead writes the head.
func (j *Journal) saveHead(ctx context.Context, cm *corev1.ConfigMap) error {
	cm.ResourceVersion = j.rv
	var saved *corev1.ConfigMap
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		var err error
		if j.rv == "" {
			saved, err = j.Home.Maps().Create(ctx, cm, metav1.CreateOptions{})
		} else {
			saved, err = j.Home.Maps().Update(ctx, cm, metav1.UpdateOptions{})
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return j.lostAnswer(ctx, cm, &saved, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the journal ConfigMap %s: %w", j.Home.Describe(Name), err)
	}
	j.rv, j.head, j.claimed = saved.ResourceVersion, saved, true
	return nil
}

// lostAnswer distinguishes a write whose answer got lost while an API server restarted from one by another client.
func (j *Journal) lostAnswer(
	ctx context.Context,
	want *corev1.ConfigMap,
	saved **corev1.ConfigMap,
	conflict error,
) error {
	live, err := j.Home.Maps().Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if maps.EqualFunc(live.BinaryData, want.BinaryData, bytes.Equal) && live.Data["writer"] == want.Data["writer"] {
		*saved = live
		return nil
	}
	return fmt.Errorf("another client wrote it: %w", conflict)
}

// writePart writes a part that no head names. One of that name may be left from a crash, or from a process that is
// behind.
func (j *Journal) writePart(ctx context.Context, name string, data []byte) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: j.Home.NamespaceOrDefault(),
			Labels:    map[string]string{"app.kubernetes.io/managed-by": "transplant"},
		},
		Data:       map[string]string{"run": j.doc.Run},
		BinaryData: map[string][]byte{partKey: data},
	}
	var saved *corev1.ConfigMap
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		var err error
		if saved, err = j.Home.Maps().Create(ctx, cm, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			saved, err = j.replacePart(ctx, cm)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing part %s/%s of the journal: %w", j.Home.NamespaceOrDefault(), name, err)
	}
	j.versions[name] = saved.ResourceVersion
	return nil
}

// replacePart writes over a part that is left. It is read before the head is: a process that has taken the journal over
// since wrote the head before any part.
func (j *Journal) replacePart(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	left, err := j.Home.Maps().Get(ctx, cm.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	now, err := j.Home.Maps().Get(ctx, j.Home.Name(Name), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if now.ResourceVersion != j.rv {
		return nil, fmt.Errorf(
			"another client wrote the journal ConfigMap %s meanwhile: run the same command again",
			j.Home.Describe(Name),
		)
	}
	if bytes.Equal(left.BinaryData[partKey], cm.BinaryData[partKey]) {
		return left, nil
	}
	next := cm.DeepCopy()
	next.ResourceVersion = left.ResourceVersion
	return j.Home.Maps().Update(ctx, next, metav1.UpdateOptions{})
}

// deleteOldParts deletes the parts that the head names no longer. One that stays, since the API server is away or
// another client has written it, is overwritten later.
func (j *Journal) deleteOldParts(ctx context.Context, before []part) {
	named := map[string]bool{}
	for _, p := range j.where.parts() {
		named[p.Name] = true
	}
	for _, p := range slices.Concat(before, j.left) {
		if version := j.versions[p.Name]; version != "" && !named[p.Name] {
			_ = j.Home.Maps().
				Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
			delete(j.versions, p.Name)
		}
	}
	j.left = nil
}
