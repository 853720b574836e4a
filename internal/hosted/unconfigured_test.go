package hosted

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// TestAHostedManagerWithoutACloudConfigIsFollowedByOneWithout is there and back for --cloud-provider=aws alone, and for an empty --cloud-config.
func TestAHostedManagerWithoutACloudConfigIsFollowedByOneWithout(t *testing.T) {
	for _, replicas := range []int32{1, 2} {
		w := newWorld(t, replicas, false)
		d, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := &d.Spec.Template.Spec.Containers[0]
		at := slices.Index(c.Args, "--cloud-config")
		if replicas == 1 {
			c.Args[at+1] = ""
		} else {
			c.Args = slices.Delete(c.Args, at, at+2)
		}
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "cloud" })
		spec := &d.Spec.Template.Spec
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "cloud" })
		if _, err := w.s.Kube.AppsV1().Deployments(ns).Update(t.Context(), d, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(c.Args)
		for range 8 { // its old pods end
			w.catchUp()
			w.clock.Step(2 * time.Second)
		}
		w.run(Handover)
		w.owns(component.CCM)
		made, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), "aws-"+component.CCM, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text := jsonOf(t, made.Spec); strings.Contains(text, "cloud-config") || !strings.Contains(text, "--cloud-provider=aws") {
			t.Errorf("the manager is told of a config that is not there: %s", text)
		}
		if _, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), layout.SeedCloudConfig, metav1.GetOptions{}); err == nil {
			t.Error("a Secret with a cloud config was made from nothing")
		}
		if err := w.plane().Rollback(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		w.owns(component.KCM)
		back, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if args := back.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, before) {
			t.Errorf("arguments after the rollback %q, before %q", args, before)
		}
	}
}
