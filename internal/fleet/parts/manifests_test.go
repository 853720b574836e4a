package parts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
	cataloguecomponent "github.com/transplant-dev/transplant/internal/component"
)

// minors of a provider for which there is a driver: at least those of its in-tree provider, in which volumes may have to move.
func minors(t *testing.T, provider string) []int {
	t.Helper()
	p, ok := cloudprovider.Lookup(provider)
	if !ok {
		t.Fatalf("the catalogue does not know %s", provider)
	}
	last := p.LastInTree
	if slices.Contains([]string{"aws", "openstack", "vsphere"}, provider) { // the makers name a release for each, and new clusters get it
		last = cataloguecomponent.Newest
	}
	var out []int
	for m := cataloguecomponent.Oldest; m <= last; m++ {
		out = append(out, m)
	}
	return out
}

// every object of every provider and minor.
func every(t *testing.T, visit func(name string, minor int, objects []*unstructured.Unstructured)) {
	t.Helper()
	for _, provider := range slices.Sorted(maps.Keys(driversOf)) {
		for _, minor := range minors(t, provider) {
			objects, err := Manifests(provider, minor)
			if err != nil {
				t.Errorf("%s in 1.%d: %v", provider, minor, err)
				continue
			}
			visit(fmt.Sprintf("%s in 1.%d", provider, minor), minor, objects)
		}
	}
}

func TestEveryInTreeVolumePluginHasItsDriver(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
		for _, plugin := range p.Plugins {
			i := slices.IndexFunc(driversOf[p.Name], func(d driver) bool { return d.name == plugin.Driver })
			if i < 0 {
				t.Errorf("%s: %s has no driver here", p.Name, plugin.Name)
				continue
			}
			known, _ := csidriver.DriverOf(plugin.Driver)
			for _, image := range imagesOf[plugin.Driver] {
				if !known.IsImage(image.driver) {
					t.Errorf("%s is not an image of %s by the catalogue: somebody else's would not be recognized", image.driver, plugin.Driver)
				}
			}
		}
	}
}

func TestReleasesFitTheMinorsThatTheirMakersName(t *testing.T) {
	for name, list := range imagesOf {
		known, _ := csidriver.DriverOf(name)
		next := cataloguecomponent.Oldest
		for _, i := range list {
			if i.from != next || i.to < i.from {
				t.Errorf("%s: a span from 1.%d to 1.%d, expected from 1.%d on", name, i.from, i.to, next)
			}
			next = i.to + 1
			version := i.driver[strings.LastIndex(i.driver, ":")+1:]
			if r, ok := known.Release(version); ok && (i.from < r.Oldest || r.Newest != 0 && i.to > r.Newest) {
				t.Errorf("%s %s is for 1.%d to 1.%d, its makers say 1.%d to 1.%d", name, version, i.from, i.to, r.Oldest, r.Newest)
			}
			if migrates, ok := known.Migrates(version); ok && !migrates {
				t.Errorf("%s %s does not take over volumes of the in-tree plugin", name, version)
			}
		}
	}
}

func TestManifestsAreWhole(t *testing.T) {
	every(t, func(name string, _ int, objects []*unstructured.Unstructured) {
		seen := map[string]bool{}
		accounts := map[string]bool{}
		for _, o := range objects {
			id := o.GetKind() + " " + o.GetName()
			if seen[id] {
				t.Errorf("%s: %s is there twice", name, id)
			}
			seen[id] = true
			if resources[o.GetKind()] == "" || o.GetLabels()[managedBy] != fieldManager {
				t.Errorf("%s: %s cannot be applied, or is not marked as ours", name, id)
			}
			if _, ok := o.Object["status"]; ok || strings.Contains(fmt.Sprint(o.Object), "creationTimestamp") {
				t.Errorf("%s: %s has fields that are the server's", name, id)
			}
			if o.GetKind() == "ServiceAccount" {
				accounts[o.GetName()] = true
			}
		}
		for _, o := range objects {
			pod := podIn(t, o)
			if pod == nil {
				continue
			}
			if !accounts[pod.ServiceAccountName] {
				t.Errorf("%s: %s runs as %s, which is not there", name, o.GetName(), pod.ServiceAccountName)
			}
			wholePod(t, name+": "+o.GetName(), *pod)
		}
	})
}

func podIn(t *testing.T, o *unstructured.Unstructured) *corev1.PodSpec {
	t.Helper()
	switch o.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &d, true); err != nil {
			t.Fatal(err)
		}
		return &d.Spec.Template.Spec
	case "DaemonSet":
		var d appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &d, true); err != nil {
			t.Fatal(err)
		}
		return &d.Spec.Template.Spec
	}
	return nil
}

// wholePod wants every mount to have its volume, every image its tag and every %mark% filled in.
func wholePod(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	volumes, ports := map[string]bool{}, map[int32]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		if _, tag, ok := strings.Cut(c.Image[strings.LastIndex(c.Image, "/"):], ":"); !ok || tag == "" {
			t.Errorf("%s: container %s has the image %q", name, c.Name, c.Image)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
			}
		}
		if text := fmt.Sprint(c.Args, c.Command, c.Env); strings.Contains(text, "%") {
			t.Errorf("%s: container %s has an unfilled mark: %s", name, c.Name, text)
		}
		for _, p := range c.Ports {
			if ports[p.ContainerPort] {
				t.Errorf("%s: two containers listen on %d", name, p.ContainerPort)
			}
			ports[p.ContainerPort] = true
		}
	}
}

func TestDriversOnTheHostsNetworkDoNotListenOnTheSamePort(t *testing.T) {
	for provider, drivers := range driversOf {
		seen := map[int32]string{}
		for _, d := range drivers {
			if d.node.hostNetwork && d.node.port != 0 {
				if other := seen[d.node.port]; other != "" {
					t.Errorf("%s: %s and %s both listen on %d", provider, other, d.name, d.node.port)
				}
				seen[d.node.port] = d.name
			}
		}
	}
}

func TestVSphereHasNoHalfOfAWebhook(t *testing.T) {
	for _, minor := range minors(t, "vsphere") {
		objects, err := Manifests("vsphere", minor)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if strings.Contains(strings.ToLower(o.GetKind()+o.GetName()), "webhook") {
				t.Errorf("1.%d: %s %s", minor, o.GetKind(), o.GetName())
			}
		}
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	if _, err := Manifests("hetzner", 26); err == nil {
		t.Error("a provider without a driver has manifests")
	}
	if _, err := Manifests("vsphere", cataloguecomponent.Newest+1); err == nil || !strings.Contains(err.Error(), "disableCsiDriver") {
		t.Errorf("vSphere after the newest: %v", err)
	}
}

func TestDisksAreMarkedOnlyWithANameOfTheirOwn(t *testing.T) {
	for _, d := range []driver{ebs, cinder} {
		without, with := strings.Join(d.controller.arguments(""), " "), strings.Join(d.controller.arguments("prod"), " ")
		if strings.Contains(without, "cluster") || !strings.Contains(with, "=prod") {
			t.Errorf("%s: without a name %q, with one %q", d.name, without, with)
		}
	}
}

// What is installed on vSphere is a release that its makers name for the minor.
func TestTheReleaseForVSphereSupportsItsMinors(t *testing.T) {
	known, _ := csidriver.DriverOf(vsphere.name)
	for _, row := range imagesOf[vsphere.name] {
		_, tag, _ := strings.Cut(row.driver, ":")
		release, ok := known.Release(tag)
		if !ok {
			t.Errorf("the catalogue does not know %s", tag)
			continue
		}
		for minor := row.from; minor <= row.to; minor++ {
			if !release.Supports(minor) {
				t.Errorf("%s supports 1.%d to 1.%d, and is installed in 1.%d", tag, release.Oldest, release.Newest, minor)
			}
		}
	}
}

// sidecarRights are what the makers of the sidecars grant them, without what belongs to snapshots: deploy/kubernetes/base/clusterrole-*.yaml of
// kubernetes-sigs/aws-ebs-csi-driver v1.64.0. A right that is missing shows only when a volume is made, attached or grown.
var sidecarRights = map[string][]string{
	"provisioner": {
		"persistentvolumes: get list watch create patch delete", "persistentvolumeclaims: get list watch update", "storageclasses: get list watch",
		"events: list watch create update patch", "csinodes: get list watch", "nodes: get list watch", "volumeattachments: get list watch",
		"volumeattributesclasses: get",
	},
	"attacher": {
		"persistentvolumes: get list watch patch", "csinodes: get list watch", "volumeattachments: get list watch patch", "volumeattachments/status: patch",
	},
	"resizer": {
		"persistentvolumes: get list watch patch", "persistentvolumeclaims: get list watch", "pods: get list watch", "persistentvolumeclaims/status: patch",
		"events: list watch create update patch", "volumeattributesclasses: get list watch",
	},
	"node": {
		"volumeattachments: get list watch", "nodes: get list watch", "csinodes: get", // and patch on nodes, which is left out on purpose
	},
}

func TestTheSidecarsMayWhatTheirMakersGrantThem(t *testing.T) {
	for part, rights := range sidecarRights {
		granted := ebs.controllerRules()
		if part == "node" {
			granted = ebs.nodeRights
		}
		for _, right := range rights {
			resource, verbs, _ := strings.Cut(right, ": ")
			for verb := range strings.FieldsSeq(verbs) {
				if !slices.ContainsFunc(granted, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
				}) {
					t.Errorf("%s may not %s %s", part, verb, resource)
				}
			}
		}
	}
}

// The API groups count, too: a rule of the core group grants nothing about a StorageClass.
func TestEachRightIsInTheGroupOfItsResource(t *testing.T) {
	core := []string{"persistentvolumes", "persistentvolumeclaims", "persistentvolumeclaims/status", "nodes", "pods", "events", "secrets", "configmaps"}
	storage := []string{"storageclasses", "csinodes", "volumeattachments", "volumeattachments/status", "volumeattributesclasses"}
	for _, list := range driversOf {
		for _, d := range list {
			for _, r := range slices.Concat(d.controllerRules(), d.nodeRights) {
				for _, resource := range r.Resources {
					switch group := r.APIGroups[0]; {
					case slices.Contains(core, resource) && group != "", slices.Contains(storage, resource) && group != "storage.k8s.io":
						t.Errorf("%s: %s in the group %q", d.name, resource, group)
					}
				}
			}
		}
	}
}
