package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const next = "v1.27.4"

// tag is the tag of the image that a process was started from; empty when the host runs none of the component.
func (w *world) tag(component, host string) string {
	p := w.procs[component+"@"+host]
	if p == nil {
		return ""
	}
	for content, m := range w.parsed {
		if hostaccess.SHA256([]byte(content)) == p.sum {
			_, tag, err := controlplane.SplitImage(m.Image())
			if err != nil {
				w.t.Error(err)
			}
			return tag
		}
	}
	return ""
}

// neverNewer fails the test when a manager is newer than some API server, whenever anybody looks.
func (w *world) neverNewer() {
	for _, h := range w.hostNames() {
		for _, other := range w.hostNames() {
			if m, s := w.tag(component.KCM, h), w.tag(component.KAS, other); m == next && s != next && s != "" {
				w.t.Errorf("%s on %s is %s next to an API server of %s on %s", component.KCM, h, m, s, other)
			}
		}
	}
}

// upgradeWorld is a cluster made by kubeadm in which versions are watched.
func upgradeWorld(t *testing.T, hosts int) *world {
	t.Helper()
	w := newWorld(t, hosts)
	c := kubeadmConfig()
	c.Data["ClusterConfiguration"] += "kubernetesVersion: v1.26.0\n"
	w.api.Put(t, c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more = w.neverNewer
	return w
}

func (w *world) versionOf(_ context.Context, component, host, _ string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catchUp()
	if tag := w.tag(component, host); tag != "" {
		return tag, nil
	}
	return "", errors.New("connection refused")
}

func (w *world) kubeadmVersion() string {
	var c corev1.ConfigMap
	w.api.Get(w.t, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", &c)
	_, rest, _ := strings.Cut(c.Data["ClusterConfiguration"], "kubernetesVersion: ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

func TestAnUpgradeAndItsWayBackSurviveEveryDeath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		hosts    int
		strategy string
	}{{"leader migration", 2, planstep.LeaderMigration}, {"downtime", 2, planstep.Downtime}, {"a single host", 1, planstep.Downtime}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := upgradeWorld(t, c.hosts)
			files := w.files()
			p := w.beginWith(v1.Options{TargetVersion: next, Strategy: c.strategy})
			if n := w.afterEveryDeath(p); n < len(p.Steps) {
				t.Errorf("%d deaths in %d steps", n, len(p.Steps))
			}
			w.migrated(p)
			w.all(next)
			w.backAfterEveryDeath()
			w.rolledBack(files)
			w.all("v1.26.0")
		})
	}
}

// all fails the test unless every component, and kubeadm, has a version.
func (w *world) all(version string) {
	w.t.Helper()
	for _, h := range w.hostNames() {
		for _, component := range []string{component.KAS, component.KCM} {
			if have := w.tag(component, h); have != version {
				w.t.Errorf("%s on %s is %s", component, h, have)
			}
		}
	}
	if have := w.kubeadmVersion(); have != version {
		w.t.Errorf("kubeadm goes on with %s", have)
	}
}

func TestAnUpgradeIsRolledBackFromEachSortOfStep(t *testing.T) {
	t.Parallel()
	w := upgradeWorld(t, 2)
	files := w.files()
	p := w.beginWith(v1.Options{TargetVersion: next})
	tried := map[string]bool{}
	for _, s := range p.Steps {
		if s.Component == "" || s.Host == "cp-2" && s.Component != component.KCM { // once of each kind, and where the owner is
			continue
		}
		if tried[s.Phase+s.Component] {
			continue // the property test of the plan has the others
		}
		tried[s.Phase+s.Component] = true
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			w := upgradeWorld(t, 2)
			p := w.beginWith(v1.Options{TargetVersion: next})
			died, err := w.runUntil(p, func(point, step string) bool { return point == "during" && step == s.ID })
			if err != nil || !died {
				t.Fatalf("%v, %v", died, err)
			}
			w.rollBack()
			w.rolledBack(files)
			w.all("v1.26.0")
		})
	}
}

func TestAVersionIsProvenByWhatTheProcessSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version func(w *world) func(context.Context, string, string, string) (string, error)
		step    string
		want    []string
	}{
		{"it is the new one", func(w *world) func(context.Context, string, string, string) (string, error) { return w.versionOf }, "", nil},
		{"it does not tell this account", func(*world) func(context.Context, string, string, string) (string, error) {
			return func(context.Context, string, string, string) (string, error) { return "", nil }
		}, "", nil},
		{"the old one goes on", func(w *world) func(context.Context, string, string, string) (string, error) {
			return func(context.Context, string, string, string) (string, error) { return "v1.26.0", nil }
		}, "external/kube-apiserver@cp-2", []string{"kube-apiserver on host cp-2 says that it is v1.26.0, not v1.27.4"}},
		{"it does not answer", func(w *world) func(context.Context, string, string, string) (string, error) {
			return func(ctx context.Context, program, host, address string) (string, error) {
				if program == component.KAS {
					return "", errors.New("connection refused")
				}
				return w.versionOf(ctx, program, host, address)
			}
		}, "external/kube-apiserver@cp-2", []string{"kube-apiserver on host cp-2 does not say its version: connection refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := upgradeWorld(t, 2)
			p := w.beginWith(v1.Options{TargetVersion: next})
			step, err := w.run(p, func(o *step.Options) {
				asks := c.version(w)
				o.Version = func(ctx context.Context, program, host, address string) (string, error) {
					if program == component.KCM && c.step != "" {
						return w.versionOf(ctx, program, host, address)
					}
					return asks(ctx, program, host, address)
				}
			})
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				w.all(next)
				return
			}
			if step != c.step {
				t.Errorf("it ended at %q", step)
			}
			says(t, err, c.want...)
		})
	}
}

func TestAnImageThatCannotBePulledIsNamed(t *testing.T) {
	t.Parallel()
	w := upgradeWorld(t, 2)
	p := w.beginWith(v1.Options{TargetVersion: next})
	image := "registry.k8s.io/kube-apiserver:" + next
	w.more = func() {
		for _, h := range w.hostNames() {
			if w.tag(component.KAS, h) != next {
				continue
			}
			m, err := controlplane.Parse([]byte(w.read(h, manifests+component.KAS+".yaml")))
			if err != nil {
				t.Error(err)
				return
			}
			command := m.Command()
			delete(w.procs, component.KAS+"@"+h) // the kubelet has the manifest, and waits for the image
			w.api.Put(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: component.KAS + "-node-" + h, Namespace: component.Namespace},
				Spec:       corev1.PodSpec{NodeName: "node-" + h, Containers: []corev1.Container{{Name: component.KAS, Image: image, Command: command}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: component.KAS, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}}}},
			})
		}
	}
	step, err := w.run(p)
	if !strings.HasPrefix(step, "external/kube-apiserver@") {
		t.Errorf("it ended at %q", step)
	}
	says(t, err, "pod kube-system/kube-apiserver-node-", ": ImagePullBackOff of image "+image+" (Back-off pulling image)", "crictl pull "+image, "transplant rollback")
}
