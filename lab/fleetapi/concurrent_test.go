package fleetapi

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

var everything = flag.Bool("fleet.all", false, "try many writers at once, too, which takes a minute")

// Every one of these writers writes a Cluster of its own, so that nobody meets a conflict.
const (
	writers        = 16
	writesOfWriter = 60
)

// The rules of the schema hold under many writes at once, by releases that have the mistake of kubernetes/kubernetes#114661 (v1.26.0, repaired in v1.26.1) and
// by those that do not: what is forbidden is never taken, and nobody but v1.26.0 refuses what is allowed. What v1.26.0 refuses so is taken a moment later.
func TestTheRulesHoldWhenManyWriteAtOnce(t *testing.T) {
	if !*everything {
		t.Skip("takes a minute: make fleet, or -fleet.all")
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			s := seedOf(t, version)
			var tripped, forbidden atomic.Int64
			var all sync.WaitGroup
			for i := range writers {
				all.Go(func() { s.writeALot(t, i, &tripped, &forbidden) })
			}
			all.Wait()
			t.Logf("%d writes at a time: of %d allowed ones %d were refused with an internal error; of %d forbidden ones none was taken",
				writers, writers*writesOfWriter, tripped.Load(), forbidden.Load())
			if version != old && tripped.Load() > 0 {
				t.Errorf("%d allowed writes were refused", tripped.Load())
			}
		})
	}
}

// writeALot makes allowed and forbidden changes in turns, and says of each what is wrong with the answer.
func (s *seed) writeALot(t *testing.T, writer int, tripped, forbidden *atomic.Int64) {
	name := fmt.Sprintf("many-%02d", writer)
	o, err := s.create(
		t,
		object(kubermatic.GroupName, name, `{features: {externalCloudProvider: true}, cloud: {providerName: aws, aws: {vpcID: v}}, version: v1.26.0}`),
	)
	if err != nil {
		t.Error(err)
		return
	}
	for n := range writesOfWriter {
		_, err := s.patch(t, o, `{"spec":{"features":{"externalCloudProvider":false}}}`)
		if !refused(err, "cannot be disabled once it's enabled") && !internal(err) {
			t.Errorf("%s: switching the feature off ends with %v", name, err)
			return
		}
		forbidden.Add(1)
		patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n)
		var have *unstructured.Unstructured
		for have, err = s.patch(t, o, patch); internal(err); have, err = s.patch(t, o, patch) {
			tripped.Add(1)
			if is, err := s.clusters(kubermatic.GroupName).Get(t.Context(), name, metav1.GetOptions{}); err != nil || is.GetLabels()["n"] == fmt.Sprint(n) {
				t.Errorf("%s: a write that was refused is there: %v, %v", name, is.GetLabels(), err)
				return
			}
		}
		if err != nil || have.GetLabels()["n"] != fmt.Sprint(n) {
			t.Errorf("%s: an allowed write ends with %v", name, err)
			return
		}
	}
}

// internal reports whether the API server has failed over a rule, and not the object.
func internal(err error) bool {
	return err != nil && strings.Contains(err.Error(), "internal error: runtime error") && strings.Contains(err.Error(), "evaluating rule")
}
