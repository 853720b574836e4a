package cloudprovider

import (
	"maps"
	"slices"

	"github.com/transplant-dev/transplant/internal/component"
)

// images of this project, by provider, with the minors of API servers that every run of its tests proves (ccm/proven).
var images = map[string]imageSpans{
	AWS:       ownImage(AWS),
	Azure:     ownImage(Azure),
	GCE:       ownImage(GCE),
	OpenStack: ownImage(OpenStack),
	VSphere:   ownImage(VSphere),
}

// ownByDefault are the providers of which a plan takes our image unless another one is asked for. Those for Azure, GCE,
// OpenStack and vSphere have seen simulators only, and clusters in production have run the official ones for years.
var ownByDefault = map[string]bool{AWS: true}

// ownImage is the image of our program for a provider.
func ownImage(provider string) imageSpans {
	return imageSpans{{24, 37, Image{
		Ref:  component.Registry + "/" + provider + "-" + component.CCM + ":v0.1.0",
		Ours: true, Minor: 37, ReadyPath: "/readyz",
	}}}
}

// official images. The library answers /healthz without credentials (k8s.io/controller-manager/app/serve.go); it has no
// /readyz.
var official = map[string]imageSeries{
	// The default images of kops (kubernetes/kops, pkg/model/components/awscloudcontrollermanager.go of its releases),
	// each promoted by kubernetes/k8s.io registry.k8s.io/images/k8s-staging-provider-aws/images.yaml; the program:
	// Dockerfile of kubernetes/cloud-provider-aws.
	"aws": {
		Image:      Image{Command: []string{"/bin/aws-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/provider-aws/cloud-controller-manager",
		tags: []tag{
			{
				minor: 20,
				tag:   "v1.20.1",
			},
			{minor: 21, tag: "v1.21.6"},
			{minor: 22, tag: "v1.22.8"},
			{minor: 23, tag: "v1.23.20"},
			{minor: 24, tag: "v1.24.19"},
			{
				minor: 25,
				tag:   "v1.25.15",
			},
			{minor: 26, tag: "v1.26.12"},
			{minor: 27, tag: "v1.27.9"},
			{minor: 28, tag: "v1.28.9"},
			{minor: 29, tag: "v1.29.8"},
			{
				minor: 30,
				tag:   "v1.30.9",
			},
			{minor: 31, tag: "v1.31.8"},
			{minor: 32, tag: "v1.32.5"},
			{minor: 33, tag: "v1.33.2"},
			{minor: 34, tag: "v1.34.0"},
			{minor: 36, tag: "v1.36.1"},
		},
	},
	// The AKS version matrix in README.md of kubernetes-sigs/cloud-provider-azure and its history: two images, whose tags
	// differ at times. Before 1.23 the versions were 0.7 (k8s.io/cloud-provider v0.20), 1.0 (v0.21) and 1.1 (v0.22).
	// Minors 34 and 36: README.md, and kops' azurecloudcontrollermanager.go. The node controller is left to the node
	// manager: examples/out-of-tree/cloud-controller-manager.yaml.
	"azure": {
		Image: Image{
			Command:     []string{component.CCM},
			Controllers: "*,-cloud-node",
			ReadyPath:   "/healthz",
			NodeIPAM:    true,
		},
		repository:  "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager",
		nodeManager: "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager",
		tags: []tag{
			{
				minor: 20,
				tag:   "v0.7.21",
			},
			{minor: 21, tag: "v1.0.23", node: "v1.0.18"},
			{minor: 22, tag: "v1.1.26", node: "v1.1.14"},
			{
				minor: 23,
				tag:   "v1.23.30",
				node:  "v1.23.24",
			},
			{minor: 24, tag: "v1.24.21", node: "v1.24.20"},
			{minor: 25, tag: "v1.25.24"},
			{minor: 26, tag: "v1.26.19"},
			{
				minor: 27,
				tag:   "v1.27.21",
				node:  "v1.27.20",
			},
			{minor: 28, tag: "v1.28.14"},
			{minor: 29, tag: "v1.29.15"},
			{minor: 30, tag: "v1.30.13", node: "v1.30.12"},
			{
				minor: 31,
				tag:   "v1.31.7",
				node:  "v1.31.6",
			},
			{minor: 32, tag: "v1.32.6", node: "v1.32.5"},
			{minor: 33, tag: "v1.33.1", node: "v1.33.0"},
			{minor: 34, tag: "v1.34.3"},
			{minor: 36, tag: "v1.36.2"},
		},
	},
	// kubernetes/k8s.io registry.k8s.io/images/k8s-staging-cloud-provider-gcp/images.yaml for 26 to 30, kops'
	// gcpcloudcontrollermanager.go for 33 to 35. There are none for other minors: its makers publish few. Up to 30 the
	// program lies where defs/container.bzl puts it; later images are ko's, which start it by themselves.
	"gce": {
		Image:      Image{Command: []string{"/cloud-controller-manager"}, ReadyPath: "/healthz", NodeIPAM: true},
		repository: "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager",
		tags: []tag{
			{
				minor: 26,
				tag:   "v26.2.4",
			},
			{minor: 27, tag: "v27.1.6"},
			{minor: 28, tag: "v28.2.1"},
			{minor: 29, tag: "v29.0.0"},
			{minor: 30, tag: "v30.0.0"},
			{
				minor:  33,
				tag:    "v33.1.1",
				starts: true,
			},
			{minor: 34, tag: "v34.2.0", starts: true},
			{minor: 35, tag: "v35.0.0", starts: true},
		},
	},
	// manifests/controller-manager/openstack-cloud-controller-manager-ds.yaml of each release of
	// kubernetes/cloud-provider-openstack. The image has no entrypoint, only a command: with flags alone it does not start
	// (cluster/images and Dockerfile there).
	"openstack": {
		Image:      Image{Command: []string{"/bin/openstack-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/provider-os/openstack-cloud-controller-manager",
		tags: []tag{
			{
				minor: 20,
				tag:   "v1.20.0",
				at:    openstackHub,
			},
			{minor: 21, tag: "v1.21.0", at: openstackHub},
			{minor: 22, tag: "v1.22.0", at: openstackHub},
			{
				minor: 23,
				tag:   "v1.23.0",
				at:    openstackHub,
			},
			{minor: 24, tag: "v1.24.6"},
			{minor: 25, tag: "v1.25.6"},
			{minor: 26, tag: "v1.26.4"},
			{
				minor: 27,
				tag:   "v1.27.3",
			},
			{minor: 28, tag: "v1.28.3"},
			{minor: 29, tag: "v1.29.1"},
			{minor: 30, tag: "v1.30.3"},
			{minor: 31, tag: "v1.31.4"},
			{
				minor: 32,
				tag:   "v1.32.1",
			},
			{minor: 33, tag: "v1.33.1"},
			{minor: 34, tag: "v1.34.1"},
			{minor: 35, tag: "v1.35.0"},
			{minor: 36, tag: "v1.36.0"},
		},
	},
	// releases/v1.*/vsphere-cloud-controller-manager.yaml of kubernetes/cloud-provider-vsphere. Images before 1.28 stayed
	// in a registry that its README.md calls the previous one: keep a copy of them.
	"vsphere": {
		Image:      Image{Command: []string{"/bin/vsphere-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere",
		tags: []tag{
			{
				minor: 20,
				tag:   "v1.20.0",
				at:    vspherePast,
			},
			{minor: 21, tag: "v1.21.1", at: vspherePast},
			{minor: 22, tag: "v1.22.3", at: vspherePast},
			{
				minor: 23,
				tag:   "v1.23.1",
				at:    vspherePast,
			},
			{minor: 24, tag: "v1.24.2", at: vspherePast},
			{minor: 25, tag: "v1.25.0", at: vspherePast},
			{
				minor: 26,
				tag:   "v1.26.0",
				at:    vspherePast,
			},
			{minor: 27, tag: "v1.27.0", at: vspherePast},
			{minor: 28, tag: "v1.28.0"},
			{minor: 29, tag: "v1.29.0"},
			{
				minor: 30,
				tag:   "v1.30.1",
			},
			{minor: 31, tag: "v1.31.0"},
			{minor: 32, tag: "v1.32.1"},
			{minor: 33, tag: "v1.33.0"},
			{minor: 34, tag: "v1.34.0"},
			{minor: 35, tag: "v1.35.0"},
			{minor: 36, tag: "v1.36.0"},
		},
	},
}

const (
	openstackHub = "docker.io/k8scloudprovider/openstack-cloud-controller-manager"
	vspherePast  = "gcr.io/cloud-provider-vsphere/cpi/release/manager"
)

// Image is a cloud-controller-manager that fits a cluster.
type Image struct {
	// Ref with its tag.
	Ref string
	// Ours reports whether it is this project's, which is proven over a range of API servers; an official one belongs to
	// one minor.
	Ours bool
	// Minor of k8s.io/cloud-provider inside: the dialect of its controller names.
	Minor int
	// Command is the program in the image. Some images start it by themselves, and some do not: with it, both do. Empty
	// where the image's own has to do.
	Command []string
	// Controllers is the value of --controllers that its makers give; empty when all of them run.
	Controllers string
	// ReadyPath answers on the secure port without credentials.
	ReadyPath string
	// NodeIPAM reports whether it can allocate pod CIDRs.
	NodeIPAM bool
	// NodeManager is the image that has to run on every node next to it; empty when none has to.
	NodeManager string
}

// Official in the place of an image stands for the one that OfficialImage returns for a cluster.
const Official = "official"

// Own in the place of an image stands for the one that OwnImage returns for a cluster.
const Own = "ours"

// ImageFor returns the image that a plan takes for a provider and the API server's minor. It is ours where that is the
// default and its proven range covers the minor, else the official one. False when the catalogue has none.
func ImageFor(provider string, minor int) (Image, bool) {
	if i, ok := OwnImage(provider, minor); ok && ownByDefault[provider] {
		return i, true
	}
	return OfficialImage(provider, minor)
}

// OwnImage returns this project's image for a provider. False when there is none, or its proven range does not cover
// the minor.
func OwnImage(provider string, minor int) (Image, bool) { return images[provider].imageAt(minor) }

// Chosen returns the image that a word stands for: Official, Own, or none for the default. isWord is false for an
// image.
func Chosen(word, provider string, minor int) (image Image, ok, isWord bool) {
	switch word {
	case "":
		image, ok = ImageFor(provider, minor)
	case Official:
		image, ok = OfficialImage(provider, minor)
	case Own:
		image, ok = OwnImage(provider, minor)
	default:
		return Image{}, false, false
	}
	return image, ok, true
}

// StandsFor reports whether a word in the place of an image, Official or Own, may stand for this image.
func StandsFor(word, ref string) bool {
	switch word {
	case Official:
		_, official := ImageOf(ref)
		return official
	case Own:
		for _, spans := range images {
			if slices.ContainsFunc(spans, func(s imageSpan) bool { return s.Ref == ref }) {
				return true
			}
		}
	}
	return false
}

// OfficialImage returns the provider's own image for a minor. False when its makers published none that a source names.
func OfficialImage(provider string, minor int) (Image, bool) {
	series, ok := official[provider]
	if !ok {
		return Image{}, false
	}
	i := slices.IndexFunc(series.tags, func(t tag) bool { return t.minor == minor })
	if i < 0 {
		return Image{}, false
	}
	t := series.tags[i]
	out := series.Image
	out.Minor = minor
	out.Ref = t.repository(series.repository) + ":" + t.tag
	if t.starts {
		out.Command = nil
	}
	if series.nodeManager != "" {
		out.NodeManager = series.nodeManagerAt(t)
	}
	return out, true
}

// OwnProviders are the providers for which this project has an image, sorted.
func OwnProviders() []string { return slices.Sorted(maps.Keys(images)) }

// ImageOf returns the official image of a reference. Makers number their releases in ways of their own, so a tag alone
// does not tell the minor.
func ImageOf(ref string) (Image, bool) {
	for provider, series := range official {
		for _, t := range series.tags {
			if t.repository(series.repository)+":"+t.tag == ref {
				return OfficialImage(provider, t.minor)
			}
		}
	}
	return Image{}, false
}

// spans of minors in which an image of ours fits.
type imageSpans []imageSpan

func (s imageSpans) imageAt(minor int) (Image, bool) {
	i := slices.IndexFunc(s, func(i imageSpan) bool { return minor >= i.from && minor <= i.to })
	if i < 0 {
		return Image{}, false
	}
	return s[i].Image, true
}

type imageSpan struct {
	from, to int
	Image
}

// imageSeries is an official image with its tags, one per minor.
type imageSeries struct {
	Image
	repository, nodeManager string
	tags                    []tag
}

// tag is the newest tag of a minor that a source names.
type tag struct {
	minor int
	tag   string
	// at is the repository where it is not the series'; node the tag of the node manager where it differs.
	at, node string
	// starts reports whether the image starts its program by itself, from a path that the series' command does not name.
	starts bool
}

func (t tag) repository(usual string) string {
	if t.at != "" {
		return t.at
	}
	return usual
}

func (s imageSeries) nodeManagerAt(t tag) string {
	if t.node != "" {
		return s.nodeManager + ":" + t.node
	}
	return s.nodeManager + ":" + t.tag
}

// FirstLeaderMigration is the first minor of kube-controller-manager, and of the cloud-controller-managers' library,
// that has leader migration.
const FirstLeaderMigration = 21

// HasLeaderMigration reports whether the official manager of a provider campaigns for a migration lease in the versions
// whose library can. Azure's is an application of its own (cloud-provider-azure
// cmd/cloud-controller-manager/app/controllermanager.go): it takes the flags and campaigns for its main lease only.
func HasLeaderMigration(provider string) bool { return provider != "azure" }
