package hosted

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// TestASecretThatIsThereAlreadyIsNotTakenForTheManagers: who may make a Secret in the namespace of a control plane could
// send the new manager, with its credentials, to another API server or another cloud.
func TestASecretThatIsThereAlreadyIsNotTakenForTheManagers(t *testing.T) {
	const planted = "planted-secret"
	made := func(w *world) map[string]*corev1.Secret {
		out := map[string]*corev1.Secret{}
		for _, name := range []string{layout.SeedKubeconfig, layout.SeedCloudConfig} {
			secret, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out[name] = secret
		}
		return out
	}
	other := newWorld(t, 1, false)
	other.run(Handover)
	for name, c := range map[string]struct {
		secret, key string
		change      func([]byte) []byte
		says        string
	}{
		"another API server": {layout.SeedKubeconfig, layout.SeedKubeconfigKey,
			func(b []byte) []byte {
				return []byte(strings.ReplaceAll(string(b), "server: ", "server: https://"+planted+".example.com/"))
			},
			"its key kubeconfig holds something else"},
		"no token":              {layout.SeedKubeconfig, layout.SeedTokenKey, func([]byte) []byte { return []byte(planted) }, "its key token holds no token of a ServiceAccount"},
		"another cloud":         {layout.SeedCloudConfig, layout.SeedCloudConfigKey, func([]byte) []byte { return []byte("[Global]\nVPC = " + planted + "\n") }, "its key config holds something else"},
		"nothing":               {layout.SeedCloudConfig, layout.SeedCloudConfigKey, func([]byte) []byte { return nil }, "its key config holds something else"},
		"what would be written": {layout.SeedKubeconfig, layout.SeedKubeconfigKey, func(b []byte) []byte { return b }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret := made(other)[c.secret].DeepCopy()
			secret.ObjectMeta = metav1.ObjectMeta{Name: c.secret, Namespace: ns, Labels: secret.Labels}
			secret.Data[c.key] = c.change(secret.Data[c.key])
			w := newWorld(t, 1, false)
			if _, err := w.s.Kube.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			err := w.plane().Run(t.Context(), Handover, nil, nil)
			if c.says == "" {
				if err != nil {
					t.Fatal(describe(err))
				}
				w.owns(component.CCM)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "delete it") || strings.Contains(err.Error(), planted) {
				t.Errorf("the handover says %v, want %q", err, c.says)
			}
			w.owns(component.KCM)
		})
	}
}
