package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/mask"
)

// memory is what was found out about clusters since this operator leads. It may be lost at any time: what it held is found out again.
type memory struct {
	mu      sync.Mutex
	records map[string]*dossier
}

// dossier is about one cluster.
type dossier struct {
	uid types.UID
	// generation of the object when the last run began, and the plan that was confirmed then.
	generation int64
	confirmed  string

	journal  state.Journal
	run      state.Run
	owners   state.Owners
	parts    PartsSeen
	machines state.Machines
	token    state.Seen
	// looking is that a look is under way, annotating that the annotations are being written, unconfirming that one is being taken off.
	looking, annotating, unconfirming bool
	// watched is that changes of its machines are told; changed is when the first was told since looked, when the last look began.
	watched         bool
	changed, looked time.Time
	// restarting is that it has one of the places for restarts of MachineDeployments.
	restarting bool
	// holder is the other installation that migrates the cluster; empty for none.
	holder  string
	written written
}

// written is what was last written to the Clusters of a name, by group, until the cache shows it.
type written map[string]*pending

type pending struct {
	cluster *kubermaticv1.Cluster
	// stale are the versions that the cache may show until then.
	stale map[string]bool
}

// latest is the Cluster as it was last written, if the cache is behind.
func (w written) latest(group string, cached *kubermaticv1.Cluster) *kubermaticv1.Cluster {
	p := w[group]
	if p == nil || !p.stale[cached.ResourceVersion] {
		delete(w, group)
		return cached
	}
	return p.cluster
}

// wrote remembers what was written over a version.
func (w written) wrote(group, over string, now *kubermaticv1.Cluster) {
	if now == nil || now.ResourceVersion == over {
		return
	}
	p := w[group]
	if p == nil {
		p = &pending{stale: map[string]bool{}}
		w[group] = p
	}
	p.stale[over] = true
	p.cluster = now
}

func newMemory() *memory { return &memory{records: map[string]*dossier{}} }

// of calls f with the record of a cluster, which is empty for one that was not known, or that was deleted and made again.
func (m *memory) of(name string, uid types.UID, f func(*dossier)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[name]
	if r == nil || r.uid != uid && uid != "" && r.uid != "" {
		r = &dossier{uid: uid, written: written{}}
		m.records[name] = r
	}
	if uid != "" {
		r.uid = uid
	}
	f(r)
}

// known calls f with the record of a cluster, if there is one of this object.
func (m *memory) known(name string, uid types.UID, f func(*dossier)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[name]; r != nil && r.uid == uid {
		f(r)
	}
}

func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, name)
}

// restart gives a cluster one of the places for restarts of MachineDeployments, until a look finds that none is under way there.
func (m *memory) restart(name string, limit int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, r := range m.records {
		if r.restarting {
			n++
		}
	}
	r := m.records[name]
	if r == nil || !r.restarting && n >= limit {
		return false
	}
	r.restarting = true
	return true
}

// note writes down how a look ended.
func note(s *state.Seen, now time.Time, err error) {
	s.At = now
	if err != nil {
		s.Error = mask.Error(err)
		s.Failures++
		return
	}
	s.Error, s.Failures, s.Known = "", 0, true
}
