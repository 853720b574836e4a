package controlplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const pinned = `apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --cloud-provider=aws
    image: registry.k8s.io/kube-apiserver:v1.26.0 # of kubeadm
    name: kube-apiserver
`

func image(tag string) v1.Edit {
	return v1.Edit{Op: v1.EditSetImage, Name: "kube-apiserver", Value: tag}
}

func TestAnImageGetsAnotherTagAndKeepsItsRegistryAndRepository(t *testing.T) {
	for _, c := range []struct{ name, was, is, tag, want string }{
		{"of the usual registry", "", "", "v1.27.4", "registry.k8s.io/kube-apiserver:v1.27.4"},
		{"of a registry with a port", "registry.k8s.io/", "registry.example:5000/mirror/", "v1.27.4", "registry.example:5000/mirror/kube-apiserver:v1.27.4"},
		{"in quotes, which stay", "registry.k8s.io/kube-apiserver:v1.26.0", `"registry.k8s.io/kube-apiserver:v1.26.0"`, "v1.27.4", `"registry.k8s.io/kube-apiserver:v1.27.4"`},
		{"without a v", ":v1.26.0", ":1.26.0", "1.27.4", "registry.k8s.io/kube-apiserver:1.27.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(pinned, c.was, c.is, 1)
			out, err := Apply([]byte(in), []v1.Edit{image(c.tag)})
			if err != nil {
				t.Fatal(err)
			}
			want := in[:strings.Index(in, "image: ")] + "image: " + c.want + in[strings.Index(in, " # of kubeadm"):]
			if diff := cmp.Diff(want, string(out)); diff != "" {
				t.Errorf("(-want +have):\n%s", diff)
			}
			again, err := Apply(out, []v1.Edit{image(c.tag)})
			if err != nil || string(again) != string(out) {
				t.Errorf("a second time it is changed again (%v)", err)
			}
		})
	}
}

func TestAnImageInBracesGetsAnotherTag(t *testing.T) {
	in := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kube-apiserver"},"spec":{"containers":[{"name":"a","image":"r/kube-apiserver:v1.26.0","command":["kube-apiserver"]}]}}`
	out, err := Apply([]byte(in), []v1.Edit{image("v1.27.4")})
	if want := strings.Replace(in, "v1.26.0", "v1.27.4", 1); err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAnImageThatCannotBeRetaggedIsRefused(t *testing.T) {
	for _, c := range []struct{ name, was, is, tag, want string }{
		{"a digest", ":v1.26.0", "@sha256:" + strings.Repeat("ab", 32), "v1.27.4", "named by its digest"},
		{"a tag and a digest", ":v1.26.0", ":v1.26.0@sha256:" + strings.Repeat("ab", 32), "v1.27.4", "named by its digest"},
		{"no tag", ":v1.26.0", "", "v1.27.4", "has no tag"},
		{"no tag behind a port", "registry.k8s.io/kube-apiserver:v1.26.0", "localhost:5000/kube-apiserver", "v1.27.4", "has no tag"},
		{"a tag that is none", "", "", "v1.27.4 ", "is no tag of an image"},
		{"another component", "- kube-apiserver", "- kube-scheduler", "v1.27.4", "that of kube-scheduler"},
		{"a text that is used elsewhere", "image: registry.k8s.io/kube-apiserver:v1.26.0 # of kubeadm", "image: &it registry.k8s.io/kube-apiserver:v1.26.0\n    env:\n    - name: IMAGE\n      value: *it", "v1.27.4", "cannot be edited safely"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Apply([]byte(strings.Replace(pinned, c.was, c.is, 1)), []v1.Edit{image(c.tag)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it should say %q: %v", c.want, err)
			}
		})
	}
}
