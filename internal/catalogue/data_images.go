package catalogue

// images of this project, by provider, with the minors of API servers that every run of its tests proves (ccm/proven).
var images = map[string]imageSpans{
	"aws": {{26, 36, Image{
		Ref: "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0", Ours: true, Minor: 37, ReadyPath: "/readyz",
	}}},
}

// official images. The library answers /healthz without credentials (k8s.io/controller-manager/app/serve.go); it has no /readyz.
var official = map[string]imageSeries{
	// The default images of kops (kubernetes/kops, pkg/model/components/awscloudcontrollermanager.go of its releases), each promoted by
	// kubernetes/k8s.io registry.k8s.io/images/k8s-staging-provider-aws/images.yaml; the program: Dockerfile of kubernetes/cloud-provider-aws.
	"aws": {
		Image:      Image{Command: []string{"/bin/aws-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/provider-aws/cloud-controller-manager",
		tags: []tag{
			{minor: 20, tag: "v1.20.1"}, {minor: 21, tag: "v1.21.6"}, {minor: 22, tag: "v1.22.8"}, {minor: 23, tag: "v1.23.20"}, {minor: 24, tag: "v1.24.19"},
			{minor: 25, tag: "v1.25.15"}, {minor: 26, tag: "v1.26.12"}, {minor: 27, tag: "v1.27.9"}, {minor: 28, tag: "v1.28.9"}, {minor: 29, tag: "v1.29.8"},
			{minor: 30, tag: "v1.30.9"}, {minor: 31, tag: "v1.31.8"}, {minor: 32, tag: "v1.32.5"}, {minor: 33, tag: "v1.33.2"}, {minor: 34, tag: "v1.34.0"},
			{minor: 36, tag: "v1.36.1"},
		},
	},
	// The AKS version matrix in README.md of kubernetes-sigs/cloud-provider-azure and its history: two images, whose tags differ at times. Before 1.23 the
	// versions were 0.7 (k8s.io/cloud-provider v0.20), 1.0 (v0.21) and 1.1 (v0.22). Minors 34 and 36: README.md, and kops'
	// azurecloudcontrollermanager.go. The node controller is left to the node manager: examples/out-of-tree/cloud-controller-manager.yaml.
	"azure": {
		Image:       Image{Command: []string{"cloud-controller-manager"}, Controllers: "*,-cloud-node", ReadyPath: "/healthz", NodeIPAM: true},
		repository:  "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager",
		nodeManager: "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager",
		tags: []tag{
			{minor: 20, tag: "v0.7.21"}, {minor: 21, tag: "v1.0.23", node: "v1.0.18"}, {minor: 22, tag: "v1.1.26", node: "v1.1.14"},
			{minor: 23, tag: "v1.23.30", node: "v1.23.24"}, {minor: 24, tag: "v1.24.21", node: "v1.24.20"}, {minor: 25, tag: "v1.25.24"}, {minor: 26, tag: "v1.26.19"},
			{minor: 27, tag: "v1.27.21", node: "v1.27.20"}, {minor: 28, tag: "v1.28.14"}, {minor: 29, tag: "v1.29.15"}, {minor: 30, tag: "v1.30.13", node: "v1.30.12"},
			{minor: 31, tag: "v1.31.7", node: "v1.31.6"}, {minor: 32, tag: "v1.32.6", node: "v1.32.5"}, {minor: 33, tag: "v1.33.1", node: "v1.33.0"},
			{minor: 34, tag: "v1.34.3"}, {minor: 36, tag: "v1.36.2"},
		},
	},
	// kubernetes/k8s.io registry.k8s.io/images/k8s-staging-cloud-provider-gcp/images.yaml for 26 to 30, kops' gcpcloudcontrollermanager.go for 33 to 35. There
	// are none for other minors: its makers publish few. Up to 30 the program lies where defs/container.bzl puts it; later images are ko's, which start
	// it by themselves.
	"gce": {
		Image:      Image{Command: []string{"/cloud-controller-manager"}, ReadyPath: "/healthz", NodeIPAM: true},
		repository: "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager",
		tags: []tag{
			{minor: 26, tag: "v26.2.4"}, {minor: 27, tag: "v27.1.6"}, {minor: 28, tag: "v28.2.1"}, {minor: 29, tag: "v29.0.0"}, {minor: 30, tag: "v30.0.0"},
			{minor: 33, tag: "v33.1.1", starts: true}, {minor: 34, tag: "v34.2.0", starts: true}, {minor: 35, tag: "v35.0.0", starts: true},
		},
	},
	// manifests/controller-manager/openstack-cloud-controller-manager-ds.yaml of each release of kubernetes/cloud-provider-openstack. The image has no
	// entrypoint, only a command: with flags alone it does not start (cluster/images and Dockerfile there).
	"openstack": {
		Image:      Image{Command: []string{"/bin/openstack-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/provider-os/openstack-cloud-controller-manager",
		tags: []tag{
			{minor: 20, tag: "v1.20.0", at: openstackHub}, {minor: 21, tag: "v1.21.0", at: openstackHub}, {minor: 22, tag: "v1.22.0", at: openstackHub},
			{minor: 23, tag: "v1.23.0", at: openstackHub}, {minor: 24, tag: "v1.24.6"}, {minor: 25, tag: "v1.25.6"}, {minor: 26, tag: "v1.26.4"},
			{minor: 27, tag: "v1.27.3"}, {minor: 28, tag: "v1.28.3"}, {minor: 29, tag: "v1.29.1"}, {minor: 30, tag: "v1.30.3"}, {minor: 31, tag: "v1.31.4"},
			{minor: 32, tag: "v1.32.1"}, {minor: 33, tag: "v1.33.1"}, {minor: 34, tag: "v1.34.1"}, {minor: 35, tag: "v1.35.0"}, {minor: 36, tag: "v1.36.0"},
		},
	},
	// releases/v1.*/vsphere-cloud-controller-manager.yaml of kubernetes/cloud-provider-vsphere. Images before 1.28 stayed in a registry that its README.md
	// calls the previous one: keep a copy of them.
	"vsphere": {
		Image:      Image{Command: []string{"/bin/vsphere-cloud-controller-manager"}, ReadyPath: "/healthz"},
		repository: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere",
		tags: []tag{
			{minor: 20, tag: "v1.20.0", at: vspherePast}, {minor: 21, tag: "v1.21.1", at: vspherePast}, {minor: 22, tag: "v1.22.3", at: vspherePast},
			{minor: 23, tag: "v1.23.1", at: vspherePast}, {minor: 24, tag: "v1.24.2", at: vspherePast}, {minor: 25, tag: "v1.25.0", at: vspherePast},
			{minor: 26, tag: "v1.26.0", at: vspherePast}, {minor: 27, tag: "v1.27.0", at: vspherePast}, {minor: 28, tag: "v1.28.0"}, {minor: 29, tag: "v1.29.0"},
			{minor: 30, tag: "v1.30.1"}, {minor: 31, tag: "v1.31.0"}, {minor: 32, tag: "v1.32.1"}, {minor: 33, tag: "v1.33.0"}, {minor: 34, tag: "v1.34.0"},
			{minor: 35, tag: "v1.35.0"}, {minor: 36, tag: "v1.36.0"},
		},
	},
}

const (
	openstackHub = "docker.io/k8scloudprovider/openstack-cloud-controller-manager"
	vspherePast  = "gcr.io/cloud-provider-vsphere/cpi/release/manager"
)
