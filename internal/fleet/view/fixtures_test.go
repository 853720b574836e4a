package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
)

// noon is the time of these tests.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// cluster makes a Cluster of today's group, a day old, with its feature off, and changes it.
func cluster(name string, change ...func(*kubermaticv1.Cluster)) Object {
	c := &kubermaticv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-" + "cluster", CreationTimestamp: metav1.NewTime(noon.Add(-24 * time.Hour))}}
	c.Spec.Version, c.Spec.Cloud.ProviderName = "1.26.0", "aws"
	for _, f := range change {
		f(c)
	}
	return Object{Group: kubermaticv1.GroupName, Cluster: c}
}

func legacy(o Object) Object {
	o.Group = kubermaticv1.LegacyGroupName
	return o
}

// enabled is a cluster whose feature was switched on, as the webhook leaves it.
func enabled(c *kubermaticv1.Cluster) {
	c.Spec.Features = map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true}
	annotate(kubermaticv1.CCMMigrationNeeded, "")(c)
	annotate(kubermaticv1.CSIMigrationNeeded, "")(c)
}

func annotate(key, value string) func(*kubermaticv1.Cluster) {
	return func(c *kubermaticv1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
}

// in puts a cluster into a phase, ago.
func in(phase, message string, ago time.Duration) func(*kubermaticv1.Cluster) {
	done := phase == kubermaticv1.PhaseCompleted || phase == kubermaticv1.PhaseNotNeeded
	return condition(kubermaticv1.ConditionMigration, done, phase, message, ago)
}

func condition(t kubermaticv1.ClusterConditionType, is bool, reason, message string, ago time.Duration) func(*kubermaticv1.Cluster) {
	s := corev1.ConditionFalse
	if is {
		s = corev1.ConditionTrue
	}
	return func(c *kubermaticv1.Cluster) {
		if c.Status.Conditions == nil {
			c.Status.Conditions = kubermaticv1.ClusterConditions{}
		}
		at := metav1.NewTime(noon.Add(-ago))
		c.Status.Conditions[t] = kubermaticv1.ClusterCondition{Status: s, Reason: reason, Message: message, LastTransitionTime: at, LastHeartbeatTime: at}
	}
}

// owned makes the conditions say that these run the loops.
func owned(by string) func(*kubermaticv1.Cluster) {
	return func(c *kubermaticv1.Cluster) {
		reason := state.ReasonWaiting
		if by == OwnersBoth {
			reason = state.ReasonTwoOwners
		}
		condition(kubermaticv1.ConditionLoopsOff, by == OwnersExternal || by == OwnersNone, reason, "", time.Hour)(c)
		condition(kubermaticv1.ConditionCCMReady, by == OwnersExternal, reason, "", time.Hour)(c)
	}
}

// fleet makes rows of so many clusters that are not enabled, the first the oldest.
func fleet(n int) []v1.FleetCluster {
	var objects []Object
	for i := range n {
		objects = append(objects, cluster(fmt.Sprintf("c%03d", i), func(c *kubermaticv1.Cluster) {
			c.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Minute))
		}))
	}
	return Rows(objects)
}

func options(change ...func(*v1.FleetOptions)) v1.FleetOptions {
	o := v1.FleetOptions{Waves: []string{"1", "10%", "50%", "100%"}, MaxParallel: 5, Until: UntilCompleted, PatienceSeconds: 60}
	for _, f := range change {
		f(&o)
	}
	return o
}
