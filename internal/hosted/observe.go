package hosted

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// observe makes the account by which managers are asked what they run, so that the first plan is made from what they
// say. It is what the first steps of the plan would make; they find it there.
func (p *Plane) observe(ctx context.Context) error {
	for _, o := range layout.ObserverObjects() {
		client, err := object.ClientFor(p.User.Dynamic, layout.Ref(o))
		if err != nil {
			return err
		}
		data, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("writing %s: %w", layout.Ref(o), err)
		}
		var object unstructured.Unstructured
		if err := json.Unmarshal(data, &object.Object); err != nil {
			return fmt.Errorf("reading %s: %w", layout.Ref(o), err)
		}
		_, err = client.Create(ctx, &object, metav1.CreateOptions{FieldManager: "transplant"})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s: %w", layout.Ref(o), err)
		}
	}
	return nil
}
