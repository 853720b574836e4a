package service

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/internal/jsonweight"
)

// lbState is what this process knows of one Service's load balancer. It is passed by value; what it points to is never
// changed.
type lbState struct {
	uid     types.UID
	service *corev1.Service // as it was last acted upon: what is left to delete by when the Service is gone

	// fingerprint that the cloud was last made to follow; empty when it is not known to follow any
	spec                 string
	members              *memberSet
	implementedElsewhere bool // the provider says that another controller implements it

	status  *corev1.LoadBalancerStatus // what the provider last said
	stored  *corev1.LoadBalancerStatus // what the API server made of it; nil while it has not been written
	version string                     // resource version of the Service with that status
	seen    *corev1.LoadBalancerStatus // the provider's last answer to a check
	// notFound is how often in a row a check has not found the load balancer and ensuring it has changed nothing.
	notFound int

	tried    bool // ensuring it has begun in this process
	cleaning bool // deleting has begun
	gone     bool // the Service is gone and its load balancer was left alone, see chooseOperation
	// asked is that the provider's last answer was to ask for another try. The events of the first try say all that
	// those of the others would, which may come each second.
	asked bool

	check, resync time.Time // when the next is due; zero for never

	repairs  int // of the status, in a row
	repaired time.Time
}

// isInSync reports whether the load balancer is known to be what its Service asked for when it was last looked at.
func (b lbState) isInSync() bool {
	return b.gone || b.spec != "" && (b.stored != nil || b.implementedElsewhere)
}

// isMade reports whether something of the load balancer may be in the cloud by this process or the leader before it.
// Else it is only known to be asked for.
func (b lbState) isMade() bool { return b.tried || b.spec != "" }

// store is what this process knows of all load balancers, by the keys of their Services. Only the one worker that has a
// key changes its state.
type store struct {
	mu      sync.Mutex
	states  map[string]lbState
	orphans []string // keys of the states without a Service whose load balancers are left alone, the oldest first
	pending int
}

// maxOrphans bounds how many load balancers are remembered that were left alone when their Services went, and
// maxOrphanBytes what each takes. A user may make and delete Services by new names without end.
const (
	maxOrphans     = 1000
	maxOrphanBytes = 16 << 10
)

func newStore() *store { return &store{states: map[string]lbState{}} }

func (k *store) get(key string) (lbState, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.states[key]
	return b, ok
}

func (k *store) putLBState(key string, b lbState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(key)
	k.states[key] = b
	k.count(key, 1)
	if !b.gone {
		return
	}
	if k.orphans = append(k.orphans, key); len(k.orphans) > maxOrphans {
		k.remove(k.orphans[0])
	}
}

func (k *store) dropLBState(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(key)
}

func (k *store) remove(key string) {
	k.count(key, -1)
	if k.states[key].gone {
		k.orphans = slices.DeleteFunc(k.orphans, func(orphan string) bool { return orphan == key })
	}
	delete(k.states, key)
}

// orphan remembers a load balancer that is left alone, as a user wants who removes the finalizer of its Service. If a
// Service of that name comes, it is deleted, by what is kept of the old one. One that is not remembered stays in the
// cloud then, as it does after a restart of the process.
func (k *store) orphan(key string, lb lbState) {
	kept := lbState{
		uid:                  lb.uid,
		service:              remains(lb.service),
		spec:                 lb.spec,
		implementedElsewhere: lb.implementedElsewhere,
		tried:                lb.tried,
		gone:                 true,
	}
	if !lb.isMade() || kept.service.Size() > maxOrphanBytes {
		k.dropLBState(key) // without all annotations the provider could delete something else
		return
	}
	k.putLBState(key, kept)
}

// remains is what of a Service that is gone says how its load balancer was made.
func remains(service *corev1.Service) *corev1.Service {
	out := service.DeepCopy()
	out.ManagedFields, out.OwnerReferences = nil, nil
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	return out
}

func (k *store) count(key string, by int) {
	if b, ok := k.states[key]; ok && !b.isInSync() {
		k.pending += by
		pendingServices.Set(float64(k.pending))
	}
}

// keysWithOldMembers returns the keys of load balancers that were ensured, and have other members than the nodes of
// now.
func (k *store) keysWithOldMembers(v *view) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for key, b := range k.states {
		if b.spec != "" && !b.implementedElsewhere && !b.gone && v.needsUpdate(b.members) {
			keys = append(keys, key)
		}
	}
	return keys
}

// stateLimit bounds the document: an object may have 1 MiB. It has room for about thirty thousand Services. Those that
// do not fit are ensured on a takeover.
const stateLimit = 700 << 10

// maxUnpacked and maxMemory bound, in bytes, what a document may unpack to, and its reader's memory for it. Thirty
// thousand Services are some 10 MiB of either.
const (
	maxUnpacked = 64 << 20
	maxMemory   = 64 << 20
)

// entry says that a load balancer is in line, and with what.
type entry struct {
	Print   string `json:"p"` // of everything but the members
	Members int    `json:"m"` // index into the document's sets
	members string
}

// documentSchema is the number of the fields that a document may have; one without a number is of 1.
const documentSchema = 2

// document is what is kept.
type document struct {
	Schema    int              `json:"schema,omitempty"`
	Lease     string           `json:"lease"`
	AdoptedAt time.Time        `json:"adoptedAt"`
	Epoch     int64            `json:"epoch"`
	Sets      []string         `json:"sets"`
	Services  map[string]entry `json:"services"`
}

// decodeDocument returns nil for what is no document: a next leader then ensures everything, and writes one. Of a
// document that a later version wrote it returns the leader, so that an older leader does not overwrite it. It returns
// no Service: the document may say that one is not in line after all.
func decodeDocument(packed []byte) *document { return decodeWithin(packed, maxMemory) }

// decodeWithin is decode with a limit of memory in bytes.
func decodeWithin(packed []byte, memory int64) *document {
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(unzip, maxUnpacked+1))
	if err != nil || len(data) > maxUnpacked {
		return nil
	}
	if _, err := jsonweight.Of(data, reflect.TypeFor[document](), memory); err != nil {
		return nil
	}
	var d document
	if json.Unmarshal(data, &d) != nil {
		return nil
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if d.Schema > documentSchema || strict.Decode(new(document)) != nil {
		d.Sets, d.Services = nil, nil
	}
	return &d
}

// entries are those whose members the document has.
func (d *document) entries() map[string]entry {
	out := make(map[string]entry, len(d.Services))
	for key, e := range d.Services {
		if e.Members >= 0 && e.Members < len(d.Sets) {
			e.members = d.Sets[e.Members]
			out[key] = e
		}
	}
	return out
}

// encodeDocument packs entries, in the order of their keys, as far as they fit.
func encodeDocument(d document, entries map[string]entry) ([]byte, map[string]bool, error) {
	d.Schema = documentSchema
	keys := slices.Sorted(maps.Keys(entries))
	for {
		d.Sets, d.Services = nil, make(map[string]entry, len(keys))
		sets := map[string]int{}
		for _, key := range keys {
			e := entries[key]
			index, ok := sets[e.members]
			if !ok {
				index = len(d.Sets)
				sets[e.members] = index
				d.Sets = append(d.Sets, e.members)
			}
			e.Members = index
			d.Services[key] = e
		}
		data, err := pack(d)
		if err != nil {
			return nil, nil, err
		}
		if len(data) <= stateLimit {
			kept := make(map[string]bool, len(keys))
			for _, key := range keys {
				kept[key] = true
			}
			return data, kept, nil
		}
		keys = keys[:len(keys)*stateLimit/len(data)*19/20]
	}
}

func pack(d document) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := json.NewEncoder(zip).Encode(d); err != nil {
		return nil, fmt.Errorf("encoding which load balancers are in line: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("packing which load balancers are in line: %w", err)
	}
	return out.Bytes(), nil
}

// noteAsked notes on a state whether the provider asks for another try.
func (k *store) noteAsked(key string, asked bool) {
	if lb, known := k.get(key); known && lb.asked != asked {
		lb.asked = asked
		k.putLBState(key, lb)
	}
}
