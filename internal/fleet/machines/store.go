package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// RecordName is the ConfigMap in the namespace of the cluster in the seed that keeps the Record.
	RecordName = "transplant-machines"
	recordKey  = "record"
)

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
	if err := json.Unmarshal([]byte(c.Data[recordKey]), &r); err != nil && c.Data[recordKey] != "" {
		return Record{}, "", fmt.Errorf("reading ConfigMap %s/%s: %w: delete it, and what proved that nodes are external is looked for again", s.Namespace, RecordName, err)
	}
	return r, c.ResourceVersion, nil
}

// Save writes the record when it differs from before, which Load returned with the version, and returns the new version. It fails with a conflict when
// somebody else has written meanwhile: load again.
func (s Store) Save(ctx context.Context, r, before Record, version string) (string, error) {
	if reflect.DeepEqual(r, before) {
		return version, nil
	}
	data, err := json.Marshal(r)
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
