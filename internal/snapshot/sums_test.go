package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
)

// plainSum is how earlier versions named a pod template.
func plainSum(t *testing.T, template *corev1.PodTemplateSpec) string {
	t.Helper()
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func asMap(t *testing.T, template *corev1.PodTemplateSpec) map[string]any {
	t.Helper()
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheSumOfATemplateSaysNothingOfItsSecrets(t *testing.T) {
	const secret = "hunter2"
	base := func() *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/api-token": secret, "example.com/note": "x"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "i:v1", Command: []string{"manager", "--token"}, Args: []string{secret, "--db-pass=" + secret, "--v=2"},
				Env: []corev1.EnvVar{{Name: "OS_PASSWORD", Value: secret}, {Name: "REGION", Value: "x"}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
					Path: "/healthz", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer " + secret}},
				}}},
			}}},
		}
	}
	was := base()
	sum := hosted.TemplateSHA256(asMap(t, was))
	other := base()
	data, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(data), secret, "hunter3")), other); err != nil {
		t.Fatal(err)
	}
	if got := hosted.TemplateSHA256(asMap(t, other)); got != sum {
		t.Error("a guess of the secrets can be confirmed by the sum")
	}
	if plain := plainSum(t, was); sum == plain || !hosted.IsTemplate(asMap(t, was), plain) || hosted.IsTemplate(asMap(t, other), plain) {
		t.Error("the sum of an earlier version does not count")
	}
	c := func(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"image":      func(p *corev1.PodTemplateSpec) { c(p).Image = "i:v2" },
		"flag":       func(p *corev1.PodTemplateSpec) { c(p).Args[2] = "--v=4" },
		"new flag":   func(p *corev1.PodTemplateSpec) { c(p).Args = append(c(p).Args, "--x") },
		"moved":      func(p *corev1.PodTemplateSpec) { c(p).Command, c(p).Args = append(c(p).Command, secret), c(p).Args[1:] },
		"variable":   func(p *corev1.PodTemplateSpec) { c(p).Env[1].Value = "y" },
		"annotation": func(p *corev1.PodTemplateSpec) { p.Annotations["example.com/note"] = "y" },
		"probe":      func(p *corev1.PodTemplateSpec) { c(p).LivenessProbe.HTTPGet.Path = "/livez" },
	} {
		changed := base()
		change(changed)
		if hosted.IsTemplate(asMap(t, changed), sum) {
			t.Errorf("%s: a change is not seen", name)
		}
	}
}

func TestTheSumOfACommandSaysNothingOfItsSecrets(t *testing.T) {
	command := func(secret, v string) []string {
		return []string{"kube-controller-manager", "--token", secret, "--v=" + v}
	}
	sum := hosted.CommandSHA256(command("hunter2", "2"))
	if hosted.CommandSHA256(command("hunter3", "2")) != sum {
		t.Error("a guess of the secret can be confirmed by the sum")
	}
	if hosted.IsCommand(command("hunter2", "4"), sum) {
		t.Error("a changed flag is not seen")
	}
	plain := sha256.Sum256([]byte(strings.Join(command("hunter2", "2"), "\x00")))
	old := hex.EncodeToString(plain[:])
	if old == sum || !hosted.IsCommand(command("hunter2", "2"), old) || hosted.IsCommand(command("hunter3", "2"), old) {
		t.Error("the sum of an earlier version does not count")
	}
}
