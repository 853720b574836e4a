package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/jsonweight"
)

// Record is what must not be forgotten between looks. It is kept in the seed, in the namespace of the cluster (Store),
// where the user cluster's admins cannot edit it.
type Record struct {
	// ExternalSince is since when machines are made external. By then machine-controller, its webhook and
	// operating-system-manager had rolled out with their new flags, and a cloud-controller-manager ran the loops. Nil
	// before that.
	ExternalSince *time.Time `json:"externalSince,omitempty"`
	// Nodes are the nodes that were seen, by uid.
	Nodes map[string]Sighting `json:"nodes,omitempty"`
	// Restart is how far the restart of MachineDeployments is.
	Restart Restart `json:"restart,omitzero"`
}

// Sighting is the first sight of a node.
type Sighting struct {
	// Tainted reports whether it had the taint node.cloudprovider.kubernetes.io/uninitialized then. A taint that came
	// later may be a human's.
	Tainted bool `json:"tainted,omitempty"`
}

func (r Record) wasRegisteredTainted(uid string) bool { return r.Nodes[uid].Tainted }

// See notes the nodes that are there, forgets those that are not, and reports whether that changed anything. Nodes that
// could not be listed must not be passed as none.
func (r *Record) See(nodes []Node) bool {
	seen := map[string]Sighting{}
	for _, n := range nodes {
		if before, ok := r.Nodes[n.UID]; ok {
			seen[n.UID] = before
		} else {
			seen[n.UID] = Sighting{Tainted: n.Uninitialized}
		}
	}
	if maps.Equal(seen, r.Nodes) {
		return false
	}
	r.Nodes = seen
	return true
}

// External notes that machines are made external from now on; the first call counts. It reports whether that changed
// anything.
func (r *Record) External(now time.Time) bool {
	if r.ExternalSince != nil {
		return false
	}
	now = now.UTC().Truncate(time.Second)
	r.ExternalSince = &now
	return true
}

// Restart is how far the restart of MachineDeployments is.
type Restart struct {
	// Began maps namespace/name of a MachineDeployment to its restart.
	Began map[string]Begun `json:"began,omitempty"`
	// Stopped says why nothing is restarted any longer; nil while there is no reason.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Begun is the restart of one MachineDeployment.
type Begun struct {
	At time.Time `json:"at"`
	// Value of the annotation forceRestart in its template.
	Value string `json:"value"`
	// Progress is a figure that changes with every machine that comes or goes, and Moved when it last did.
	Progress string    `json:"progress,omitempty"`
	Moved    time.Time `json:"moved"`
	// Finished reports whether all of its machines were external once.
	Finished bool `json:"finished,omitempty"`
	// Again is when it went on after a stop.
	Again time.Time `json:"again,omitzero"`
}

// Stopped is a regression that ended the restart.
type Stopped struct {
	// Deployment is namespace/name; Machine the machine that shows it, empty when none came at all.
	Deployment string    `json:"deployment"`
	Machine    string    `json:"machine,omitempty"`
	Reason     string    `json:"reason"`
	At         time.Time `json:"at"`
	// Paused reports whether the MachineDeployment was paused for it, by us.
	Paused bool `json:"paused,omitempty"`
	// Released reports whether the cluster's owner has taken back the wish to restart since: the next wish begins again.
	Released bool `json:"released,omitempty"`
}

// clone is a copy that shares nothing.
func (r Record) clone() Record {
	r.Nodes = maps.Clone(r.Nodes)
	r.Restart.Began = maps.Clone(r.Restart.Began)
	if r.Restart.Stopped != nil {
		s := *r.Restart.Stopped
		r.Restart.Stopped = &s
	}
	return r
}

const (
	// RecordName is the ConfigMap in the namespace of the cluster in the seed that keeps the Record.
	RecordName = "transplant-machines"
	recordKey  = "record"
	// RecordSchema is the number of the fields that a record may have; see the numbers of v1alpha1.
	RecordSchema = 2
	// maxMemory bounds, in bytes, what a record takes of the operator's memory: ten times what fits into a ConfigMap when
	// transplant writes it.
	maxMemory = 64 << 20
)

// Kept is a Record as it is kept.
type Kept struct {
	// Schema is the number of the record's fields; absent means 1.
	Schema int `json:"schema,omitempty"`
	Record `json:",inline"`
}

// Store keeps the Record of one cluster in the seed.
type Store struct {
	Seed      kubernetes.Interface
	Namespace string
}

// Load reads the record; an empty one when there is none. The version goes to Save.
func (s Store) Load(ctx context.Context) (r Record, version string, err error) {
	c, err := s.Seed.CoreV1().ConfigMaps(s.Namespace).Get(ctx, RecordName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Record{}, "", nil
	}
	if err != nil {
		return Record{}, "", fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, RecordName, err)
	}
	if c.Data[recordKey] == "" {
		return Record{}, c.ResourceVersion, nil
	}
	if _, err := jsonweight.Of([]byte(c.Data[recordKey]), reflect.TypeFor[Kept](), maxMemory); err != nil {
		return Record{}, "", fmt.Errorf(
			"reading what is known of machines: ConfigMap %s/%s: %w",
			s.Namespace,
			RecordName,
			err,
		)
	}
	var kept Kept
	err = document.Form{
		Object: fmt.Sprintf("ConfigMap %s/%s", s.Namespace, RecordName),
		Known:  RecordSchema,
	}.Read(
		[]byte(c.Data[recordKey]),
		&kept,
	)
	var newer *document.NewerError
	switch {
	case errors.As(err, &newer):
		return Record{}, "", fmt.Errorf("reading what is known of machines: %w", err)
	case err != nil:
		return Record{}, "", fmt.Errorf(
			"reading what is known of machines: %w: delete it, and what proved that nodes are external is looked for again",
			err,
		)
	}
	return kept.Record, c.ResourceVersion, nil
}

// Save writes the record when it differs from before, which Load returned with the version, and returns the new
// version. It fails with a conflict when another client has written meanwhile: load again.
func (s Store) Save(ctx context.Context, r, before Record, version string) (string, error) {
	if reflect.DeepEqual(r, before) {
		return version, nil
	}
	data, err := json.Marshal(Kept{Schema: RecordSchema, Record: r})
	if err != nil {
		return version, fmt.Errorf("encoding the record of machines: %w", err)
	}
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: RecordName, Namespace: s.Namespace, ResourceVersion: version},
		Data:       map[string]string{recordKey: string(data)},
	}
	maps := s.Seed.CoreV1().ConfigMaps(s.Namespace)
	if version == "" {
		c, err = maps.Create(ctx, c, metav1.CreateOptions{})
	} else {
		c, err = maps.Update(ctx, c, metav1.UpdateOptions{})
	}
	if err != nil {
		return version, fmt.Errorf("writing ConfigMap %s/%s: %w", s.Namespace, RecordName, err)
	}
	return c.ResourceVersion, nil
}
