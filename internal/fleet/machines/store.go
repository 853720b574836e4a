package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/jsonweight"
)

const (
	// RecordName is the ConfigMap in the namespace of the cluster in the seed that keeps the Record.
	RecordName = "transplant-machines"
	recordKey  = "record"
	// RecordSchema is the number of the fields that a record may have; see the numbers of v1alpha1.
	RecordSchema = 2
	// maxMemory bounds, in bytes, what a record takes of the operator's memory: ten times what fits into a ConfigMap when transplant writes it.
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
		return Record{}, "", fmt.Errorf("reading what is known of machines: ConfigMap %s/%s: %w", s.Namespace, RecordName, err)
	}
	var kept Kept
	err = document.Form{Object: fmt.Sprintf("ConfigMap %s/%s", s.Namespace, RecordName), Known: RecordSchema}.Read([]byte(c.Data[recordKey]), &kept)
	var newer *document.NewerError
	switch {
	case errors.As(err, &newer):
		return Record{}, "", fmt.Errorf("reading what is known of machines: %w", err)
	case err != nil:
		return Record{}, "", fmt.Errorf("reading what is known of machines: %w: delete it, and what proved that nodes are external is looked for again", err)
	}
	return kept.Record, c.ResourceVersion, nil
}

// Save writes the record when it differs from before, which Load returned with the version, and returns the new version. It fails with a conflict when
// somebody else has written meanwhile: load again.
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
