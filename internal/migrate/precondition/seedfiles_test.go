package precondition

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// A file that a variable names in a seed is looked for in the Secret that the kube-controller-manager mounts, before
// anything starts.
func TestAFileThatAVariableNamesInASeedIsAskedFor(t *testing.T) {
	t.Parallel()
	const namespace, source = "cluster-x", "Deployment/cluster-x/controller-manager"
	const manager = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"ccm","namespace":"cluster-x"},"spec":{"template":{"spec":{` +
		`"containers":[{"name":"ccm","image":"x","volumeMounts":[{"name":"own","mountPath":"/etc/own"}]}],"volumes":[{"name":"own","secret":{"secretName":"later"}}]}}}}`
	secret := func(name string, keys ...string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string][]byte{}}
		for _, key := range keys {
			s.Data[key] = []byte("x")
		}
		return s
	}
	for _, c := range []struct {
		name, env string
		secret    *corev1.Secret
		denied    bool
		says      string
	}{
		{"it is there", "AWS_SHARED_CREDENTIALS_FILE=/etc/cloud/credentials", secret("cloud", "credentials"), false, ""},
		{"the Secret has no such key", "AWS_SHARED_CREDENTIALS_FILE=/etc/cloud/credentials", secret("cloud", "other"), false,
			"/etc/cloud/credentials (--ccm-env AWS_SHARED_CREDENTIALS_FILE) is not in the volume of " + source + " that cloud-controller-manager mounts: " +
				"the Secret cluster-x/cloud has no key credentials"},
		{"there is no such Secret", "AWS_SHARED_CREDENTIALS_FILE=/etc/cloud/credentials", secret("another"), false, `secrets "cloud" not found`},
		{"it may not be read", "AWS_SHARED_CREDENTIALS_FILE=/etc/cloud/credentials", secret("cloud", "other"), true, ""},
		{"a file on no volume may be in the image", "SSL_CERT_FILE=/etc/ssl/certs/ca.crt", secret("cloud"), false, ""},
		{"an earlier step makes the Secret", "AWS_CONFIG_FILE=/etc/own/config", secret("cloud"), false, ""},
		{"a value that is no file", "AWS_REGION=eu-west-1", secret("cloud"), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := apitest.New(t)
			server.Put(t, c.secret, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "controller-manager", Namespace: namespace},
				Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "kcm", Command: []string{component.KCM}, VolumeMounts: []corev1.VolumeMount{{Name: "cloud", MountPath: "/etc/cloud"}},
					}},
					Volumes: []corev1.Volume{{Name: "cloud", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloud"}}}},
				}}},
			})
			if c.denied {
				server.Deny("get", "secrets")
			}
			kube, dyn := server.Clients(t)
			e := step.NewEnv(step.Options{Kube: kube, Dynamic: dyn, Seed: &step.Seed{Kube: kube, Dynamic: dyn, Namespace: namespace}}, journal.Of(v1.Journal{}))
			e.Plan = &v1.Plan{Options: v1.Options{Env: []string{c.env}}, Steps: []v1.Step{{
				ID: "start/ccm", Kind: v1.StepEnsureObject, Component: component.CCM, Ref: "Deployment/cluster-x/ccm",
				Derive: layout.DeriveSeedManager, Source: source, Object: manager,
			}}}
			err := HostFiles(t.Context(), e)
			var missing *MissingFilesError
			if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &missing) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
