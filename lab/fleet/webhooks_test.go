package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/seed"
)

// Everything about webhooks in one seed without user clusters, since a start costs.
func TestTheOperatorAnswersForClustersAsTheGuideSays(t *testing.T) {
	onlyWithAll(t)
	w := newWorld(t)
	ctx := within(t)
	must(t, w.InstallOperator(ctx, quick...))

	t.Run("enabling the feature adds both annotations", func(t *testing.T) {
		for _, group := range []string{kv1.LegacyGroupName, kv1.GroupName} {
			name := "crh4xbxz5f-" + strings.Split(group, ".")[1]
			must(t, w.grant(ctx, "cluster-"+name)) // without rights it is Blocked, held or not
			o, err := w.Create(ctx, group, name, map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
			must(t, err)
			must(t, o.Annotate(ctx, kv1.AnnotationHold, "a test: there is no such cluster"))
			have, err := o.Get(ctx)
			must(t, err)
			if _, ok := have.GetAnnotations()[kv1.CCMMigrationNeeded]; ok {
				t.Errorf("%s: it is to be migrated before anybody has asked", group)
			}
			must(t, o.Feature(ctx, true))
			have, err = o.Get(ctx)
			must(t, err)
			for _, key := range []string{kv1.CCMMigrationNeeded, kv1.CSIMigrationNeeded} {
				if value, ok := have.GetAnnotations()[key]; !ok || value != "" {
					t.Errorf("%s: annotations are %v, want an empty %s", group, have.GetAnnotations(), key)
				}
			}
			must(t, o.AwaitPhase(ctx, kv1.PhaseHeld))
			if err := o.Feature(ctx, false); err == nil || !strings.Contains(err.Error(), "cannot be disabled once it's enabled") {
				t.Errorf("%s: disabling it ends with %v", group, err)
			}
		}
	})
	t.Run("a cluster under both groups is refused", func(t *testing.T) {
		if _, err := w.Create(ctx, kv1.GroupName, "crh4xbxz5f-k8s", nil); err == nil {
			t.Error("one name was accepted under both groups")
		}
	})
	t.Run("what is not supported is refused", func(t *testing.T) {
		_, err := w.Create(ctx, kv1.GroupName, "unsupported", map[string]any{
			"cloud": map[string]any{"providerName": "bringyourown"}, "features": map[string]any{kv1.FeatureExternalCloudProvider: true},
		})
		if err == nil || !strings.Contains(err.Error(), "not supported for this cluster / provider combination") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a dead operator does not wedge the seed", func(t *testing.T) {
		must(t, w.ScaleOperator(ctx, 0))
		must(t, w.grant(ctx, "cluster-meanwhile"))
		o, err := w.Create(ctx, kv1.GroupName, "meanwhile", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
		must(t, err)
		must(t, w.ScaleOperator(ctx, 1))
		must(t, o.Annotate(ctx, kv1.AnnotationHold, "a test"))
		must(t, seed.Await(ctx, "the webhooks to be called again", func(ctx context.Context) error {
			if err := o.Feature(ctx, true); err != nil {
				return err
			}
			have, err := o.Get(ctx)
			if err != nil {
				return err
			}
			if _, ok := have.GetAnnotations()[kv1.CCMMigrationNeeded]; !ok {
				return errors.Join(errors.New("the annotation is missing"), o.Patch(ctx, map[string]any{"spec": map[string]any{"features": nil}}))
			}
			return nil
		}))
		must(t, o.AwaitPhase(ctx, kv1.PhaseHeld))
	})
}
