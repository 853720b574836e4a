package object

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// secretProblem says what a Secret holds that its step would not have made; empty where it holds that. Which API server
// and which cloud a manager works for stands in it, and the manager's credentials go there. It quotes nothing.
func (x EnsureObject) secretProblem(
	ctx context.Context,
	s v1.Step,
	want, live *unstructured.Unstructured,
) (string, error) {
	if live.GetKind() != "Secret" {
		return "", nil
	}
	have, err := secretData(live)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", s.Ref, err)
	}
	if problem := tokenProblem(have); s.Derive == layout.DeriveSeedKubeconfig && problem != "" {
		return problem, nil
	}
	// What it was derived from changes with the migration, so that it is compared once, or with what was written. Journals
	// of earlier versions have no hash.
	switch rec := x.Env.Journal.Record(s.ID); {
	case s.Derive == "":
	case rec.Created && rec.AfterSHA256 != "" && rec.AfterSHA256 != secretSum(have):
		return "it holds something else than this migration wrote", nil
	case rec.Created, rec.Result == v1.StepResultAlreadyDone:
		return "", nil
	}
	made, err := x.derivedWithoutToken(ctx, s, want)
	if err != nil || made == nil {
		return "", err
	}
	expected, err := secretData(made)
	if err != nil {
		return "", fmt.Errorf("object of step %s: %w", s.ID, err)
	}
	delete(expected, layout.SeedTokenKey)
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		if string(have[key]) != string(expected[key]) {
			return fmt.Sprintf("its key %s holds something else than this migration writes", key), nil
		}
	}
	return "", nil
}

// derivedWithoutToken is what a step makes, but for a token, which would be another one each time.
func (x EnsureObject) derivedWithoutToken(
	ctx context.Context,
	s v1.Step,
	want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	x.noToken = true
	return x.Derived(ctx, s, want)
}

// tokenProblem says why a Secret has no token of the manager. Its signature is not verified: an API server does that.
func tokenProblem(data map[string][]byte) string {
	claims, err := boundtoken.Read(string(data[layout.SeedTokenKey]))
	switch {
	case err != nil && !errors.Is(err, boundtoken.ErrEndless):
		return fmt.Sprintf("its key %s holds no token of a ServiceAccount", layout.SeedTokenKey)
	case !claims.IsOf(component.Namespace, layout.CCMAccount):
		return fmt.Sprintf("its key %s holds the token of another ServiceAccount", layout.SeedTokenKey)
	}
	return ""
}

// secretSum is the hash of what a Secret holds, but for a token, which is renewed.
func secretSum(data map[string][]byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != layout.SeedTokenKey {
			fmt.Fprintf(h, "%d:%s%d:", len(key), key, len(data[key]))
			_, _ = h.Write(data[key]) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func secretData(o *unstructured.Unstructured) (map[string][]byte, error) {
	encoded, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, errors.New("its data is no map of texts")
	}
	out := map[string][]byte{}
	for key, text := range encoded {
		if out[key], err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("its key %s is not base64", key)
		}
	}
	return out, nil
}
