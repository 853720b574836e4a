package hosted

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// madeExternal is a world whose control plane names no in-tree provider, as Kubermatic makes new clusters: the cloud config is mounted, and no flag names it.
func madeExternal(t *testing.T, wrapped bool, flags ...string) *world {
	t.Helper()
	w := newWorld(t, 1, wrapped)
	for _, name := range []string{kcmRef, "apiserver"} {
		d, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := &d.Spec.Template.Spec.Containers[0]
		for i, a := range c.Args {
			c.Args[i] = strings.NewReplacer(`"--cloud-provider","aws","--cloud-config","/etc/kubernetes/cloud/config",`, "").Replace(a)
		}
		if at := slices.Index(c.Args, "--cloud-provider"); at >= 0 {
			c.Args = slices.Delete(c.Args, at, min(at+4, len(c.Args)))
		}
		if name == kcmRef {
			c.Args = append(c.Args, flags...)
		}
		w.seed.Put(t, d)
	}
	for range 20 {
		w.clock.Step(2 * time.Second)
		w.catchUp()
	}
	return w
}

func (w *world) install() error { return w.plane().Run(w.t.Context(), Install, nil, nil) }

// refuses fails the test unless the installation is refused for a reason, with nothing changed.
func (w *world) refuses(reason string) {
	w.t.Helper()
	err := w.install()
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(describe(err), reason) {
		w.t.Fatalf("the installation says %v, want %q", err, reason)
	}
	if _, err := w.s.Kube.AppsV1().Deployments(ns).Get(w.t.Context(), "aws-cloud-controller-manager", metav1.GetOptions{}); err == nil {
		w.t.Error("a manager was started")
	}
}

func TestAControlPlaneThatWasMadeExternalGetsItsManager(t *testing.T) {
	for name, c := range map[string]struct {
		wrapped bool
		flags   []string
	}{"no provider": {false, nil}, "external": {false, []string{"--cloud-provider=external"}}, "behind http-prober": {true, nil}} {
		t.Run(name, func(t *testing.T) {
			w := madeExternal(t, c.wrapped, c.flags...)
			before := w.template(kcmRef)
			w.run(Install)
			w.owns(component.CCM)
			if w.template(kcmRef) != before {
				t.Error("kube-controller-manager was changed")
			}
			secret, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), layout.SeedCloudConfig, metav1.GetOptions{})
			if err != nil || !strings.Contains(string(secret.Data[layout.SeedCloudConfigKey]), "vpc-1") {
				t.Errorf("the cloud config that Kubermatic mounts is not the manager's: %v", err)
			}
			status, part, err := w.plane().StatusOf(t.Context(), Handover)
			if err != nil || part != Install || status.Phase != v1.StateApplied {
				t.Errorf("the journal is that of %q, %s: %v", part, status.Phase, err)
			}
			w.run(Install) // and there is nothing left to do
		})
	}
}

// An image whose program is not known is no failure of a step: nothing has begun, and who gives another image is done.
func TestWhatNoPlanCanBeMadeForIsSaidBeforeAnythingChanges(t *testing.T) {
	w := madeExternal(t, false)
	p := w.plane()
	p.Options.Image = "registry.example.com/cloud-controller-manager"
	err := p.Run(t.Context(), Install, nil, nil)
	var unplanned *UnplannedError
	if !errors.As(err, &unplanned) || unplanned.Part != Install || !strings.Contains(err.Error(), "name it with its tag") {
		t.Fatalf("the installation says %v", err)
	}
	if status, part, err := w.plane().StatusOf(t.Context(), Handover); err != nil || part != "" {
		t.Errorf("there is a journal: %+v, %v", status, err)
	}
}

func TestAnInstallationGoesOnAndBackFromEachStep(t *testing.T) {
	w := madeExternal(t, false)
	if err := w.plane().observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := w.plane().Plan(w.plane().Gather(t.Context()), Install)
	if err != nil {
		t.Fatal(describe(err))
	}
	for _, s := range p.Steps {
		if s.Kind == v1.StepVerify || s.Phase == planstep.PhasePrepare && !strings.HasPrefix(s.Ref, "Secret/") {
			continue
		}
		t.Run(s.ID, func(t *testing.T) {
			w := madeExternal(t, false)
			run := func(ctx context.Context, p *Plane) error { return p.Run(ctx, Install, nil, nil) }
			if !killed(w, "during", s.ID, run) {
				t.Fatal("the step was not reached")
			}
			if err := w.plane().Rollback(t.Context(), nil, nil); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{layout.SeedKubeconfig, layout.SeedCloudConfig} {
				if _, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
					t.Errorf("Secret %s is still there", name)
				}
			}
			killed(w, "during", s.ID, run)
			w.run(Install)
			w.owns(component.CCM)
		})
	}
}

func TestNoSecondManagerIsStartedBesideOneOfAnotherProgram(t *testing.T) {
	t.Run("in the seed", func(t *testing.T) {
		w := madeExternal(t, false)
		w.seed.Put(t, deployment("other", 1, corev1.Container{Name: "c", Image: "x", Command: []string{"/bin/aws-cloud-controller-manager"}}))
		w.refuses("other runs one already")
	})
	t.Run("in the user cluster", func(t *testing.T) {
		w := madeExternal(t, false)
		labels := map[string]string{"k8s-app": "ccm"}
		w.user.Put(t, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ccm", Namespace: "kube-system"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "ccm", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0", Args: []string{"--cloud-provider=aws"},
			}}}},
		}})
		w.refuses("DaemonSet/kube-system/ccm of the user cluster runs a cloud-controller-manager")
	})
	t.Run("by its lease alone", func(t *testing.T) {
		w := madeExternal(t, false)
		now := metav1.NewMicroTime(w.clock.Now())
		w.user.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: component.CCM, Namespace: "kube-system"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("elsewhere_1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now, AcquireTime: &now,
		}})
		w.refuses("elsewhere_1 holds Lease cloud-controller-manager")
	})
}

func TestAnInstallationIsRefusedWithWhatIsMissing(t *testing.T) {
	t.Run("an in-tree provider", func(t *testing.T) { newWorld(t, 1, false).refuses("--cloud-provider=aws: its loops are handed over") })
	t.Run("no cloud config", func(t *testing.T) {
		w := madeExternal(t, false)
		d, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := &d.Spec.Template.Spec.Containers[0]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "cloud" })
		w.seed.Put(t, d)
		for range 20 {
			w.clock.Step(2 * time.Second)
			w.catchUp()
		}
		w.refuses("mounts no cloud config")
		w.seed.Put(
			t,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: layout.SeedCloudConfig, Namespace: ns},
				Data:       map[string][]byte{layout.SeedCloudConfigKey: []byte("[Global]\nZone = mine\n")},
			},
		)
		w.run(Install)
		w.owns(component.CCM)
		secret, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), layout.SeedCloudConfig, metav1.GetOptions{})
		if err != nil || string(secret.Data[layout.SeedCloudConfigKey]) != "[Global]\nZone = mine\n" {
			t.Errorf("the Secret of a person was changed: %v", err)
		}
	})
}

// On Azure nodes are initialised by a manager on each of them, or by ours from the seed. Without either, a cluster would be called completed, and each
// of its nodes would keep its taint; with both, two managers would write one Node.
func TestAnAzureClusterGetsOneManagerOfItsNodes(t *testing.T) {
	for image, onNodes := range map[string]bool{"official": true, "ours": false} {
		t.Run(image, func(t *testing.T) {
			w := madeExternal(t, false)
			w.user.Delete("/api/v1/nodes/n1")
			w.seed.Put(t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: layout.SeedCloudConfig, Namespace: ns},
				Data:       map[string][]byte{layout.SeedCloudConfigKey: []byte(`{"vmType": "vmss", "loadBalancerSku": "standard"}`)},
			})
			p := w.plane()
			p.Provider, p.Options.Image = "azure", image
			if err := p.observe(t.Context()); err != nil {
				t.Fatal(err)
			}
			made, err := p.Plan(p.Gather(t.Context()), Install)
			if err != nil {
				t.Fatal(describe(err))
			}
			started, nodeManagers := 0, 0
			for _, s := range made.Steps {
				switch {
				case s.Ref == layout.NodeManagerDaemonSet:
					nodeManagers++
				case strings.Contains(s.Object, "azure-cloud-controller-manager") && strings.Contains(s.Ref, "Deployment/"):
					started++
					if strings.Contains(s.Object, "-cloud-node") != onNodes {
						t.Errorf("%s, next to a manager on each node: %v:\n%s", s.ID, onNodes, s.Object)
					}
				}
			}
			if started != 1 || nodeManagers == 1 != onNodes {
				t.Errorf("%d managers are started, and %d on the nodes", started, nodeManagers)
			}
			if notes := strings.Join(made.Effects, "\n"); !onNodes && strings.Contains(notes, layout.NodeManager) {
				t.Errorf("the effects are:\n%s", notes)
			}
			if err := p.Run(t.Context(), Install, nil, nil); err != nil {
				t.Errorf("the installation says %v", describe(err))
			}
		})
	}
}
