package build

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// modules holds, for each set, its go.mod, go.sum and import list. The suffix keeps the go command from taking them for
// modules of their own, which go:embed would leave out.
//
//go:embed modules
var modules embed.FS

const embeddedSuffix = ".txt"

// Set is a group of programs that are compiled together from one module graph.
type Set struct {
	Name     string    // what is built, for example "kubernetes"
	Version  string    // its version, for example "v1.26.0"
	Commands []Command // the programs
	LDFlags  []string  // linker flags: the version that the programs report

	files fs.FS // go.mod.txt, go.sum.txt, components.go.txt; nil: modules/<ID> of this package
}

// Command is one program of a set.
type Command struct {
	Name    string // file name of the program
	Package string // import path of its main package
	Image   string // image whose entrypoint it is; empty if no manifest runs it
}

// Sets lists every set that can be built. A new version is a line here and a directory below modules.
var Sets = []Set{
	{ // the storage of all API servers; the version kubeadm v1.26 and newer accept
		Name: "etcd", Version: "v3.5.15",
		Commands: []Command{
			{Name: "etcd", Package: "go.etcd.io/etcd/server/v3", Image: "registry.k8s.io/etcd:3.5.15-0"},
		},
		LDFlags: []string{"-s", "-w"},
	},
	controlPlane("v1.24.17", ""),                                        // the last one with gates of CSI migration to set
	controlPlane("v1.25.0", "a866cbe2e5bbaa01cfd5e969aa3e033f3282a8a2"), // the last minor with in-tree OpenStack
	kubernetes("v1.26.0", "b46a3f887ca979b1a5d14fd39cb1af43e7e5d12d"),   // the last minor with the in-tree AWS provider
	node("v1.26.0", "b46a3f887ca979b1a5d14fd39cb1af43e7e5d12d"),         // kubelets that know --cloud-provider=aws
	controlPlane("v1.27.4", "fa3d7990104d7c1f16943a67f11b154b71f6a132"), // the minor after it, for upgrades on the way
	controlPlane("v1.28.15", ""),                                        // with in-tree GCE, Azure and vSphere
	controlPlane("v1.29.15", ""),                                        // the last minor with in-tree Azure and vSphere
	controlPlane("v1.30.14", ""),                                        // the last minor with an in-tree provider, GCE's
	controlPlane("v1.31.0", ""),                                         // the first one without in-tree code
	apiserver("v1.28.0"),
	apiserver("v1.29.0"),
	apiserver("v1.30.14"),
	apiserver("v1.31.0"),
	apiserver("v1.32.2"),
	apiserver("v1.33.4"),
	apiserver("v1.34.4"),
	apiserver("v1.35.4"),
	apiserver("v1.36.3"),
	apiserver("v1.37.2"), // the newest, the minor that our manager is built from
	controllerManager("v1.36.3"),
	{ // what installs the charts of deploy/charts
		Name: "helm", Version: "v4.3.1",
		Commands: []Command{{Name: "helm", Package: "helm.sh/helm/v4/cmd/helm"}},
		LDFlags:  []string{"-s", "-w"},
	},
	{ // what many users still have
		Name: "helm", Version: "v3.22.0",
		Commands: []Command{{Name: "helm", Package: "helm.sh/helm/v3/cmd/helm"}},
		LDFlags:  []string{"-s", "-w"},
	},
	{ // the CSI driver that the operator installs from 1.34 on, with its sidecars
		Name:    "ebs-csi",
		Version: "v1.63.1",
		Commands: []Command{
			{
				Name:    "aws-ebs-csi-driver",
				Package: "github.com/kubernetes-sigs/aws-ebs-csi-driver/cmd",
				Image:   "registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.63.1",
			},
			{
				Name:    "csi-provisioner",
				Package: "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
				Image:   "registry.k8s.io/sig-storage/csi-provisioner:v6.3.0",
			},
			{
				Name:    "csi-attacher",
				Package: "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
				Image:   "registry.k8s.io/sig-storage/csi-attacher:v4.12.0",
			},
			// Its module is there as v2.2.0, and not as v2.2.1.
			{
				Name:    "csi-resizer",
				Package: "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
				Image:   "registry.k8s.io/sig-storage/csi-resizer:v2.2.1",
			},
		},
		LDFlags: []string{
			"-s",
			"-w",
			"-X github.com/kubernetes-sigs/aws-ebs-csi-driver/pkg/driver.driverVersion=v1.63.1 -X github.com/kubernetes-sigs/aws-ebs-csi-driver/pkg/cloud.driverVersion=v1.63.1",
		},
	},
}

// DefaultSets are the sets a lab of the in-tree AWS provider needs.
var DefaultSets = []string{"etcd-v3.5.15", "kubernetes-v1.26.0"}

// kubernetes is a set of Kubernetes' own commands: the control plane and kubectl.
func kubernetes(version, commit string) Set {
	set := controlPlane(version, commit)
	set.Commands = append(set.Commands, Command{Name: "kubectl", Package: "k8s.io/kubernetes/cmd/kubectl"})
	return set
}

// controlPlane is a set of what kubeadm's manifests run, without etcd.
func controlPlane(version, commit string) Set {
	set := Set{Name: "kubernetes", Version: version, LDFlags: stamp(version, commit)}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		set.Commands = append(set.Commands, Command{
			Name: name, Package: "k8s.io/kubernetes/cmd/" + name, Image: "registry.k8s.io/" + name + ":" + version,
		})
	}
	return set
}

// node is a set of what runs on a host itself.
func node(version, commit string) Set {
	set := Set{Name: "node", Version: version, LDFlags: stamp(version, commit)}
	for _, name := range []string{"kubeadm", "kubelet"} {
		set.Commands = append(set.Commands, Command{Name: name, Package: "k8s.io/kubernetes/cmd/" + name})
	}
	return set
}

// apiserver is a set of kube-apiserver alone, for what has to be tried against several versions of it.
func apiserver(version string) Set {
	return Set{Name: "kube-apiserver", Version: version, LDFlags: stamp(version, ""), Commands: []Command{
		{
			Name:    "kube-apiserver",
			Package: "k8s.io/kubernetes/cmd/kube-apiserver",
			Image:   "registry.k8s.io/kube-apiserver:" + version,
		},
	}}
}

// controllerManager is a set of kube-controller-manager alone, for clusters whose other programs are of other sets.
func controllerManager(version string) Set {
	return Set{Name: "kube-controller-manager", Version: version, LDFlags: stamp(version, ""), Commands: []Command{
		{
			Name:    "kube-controller-manager",
			Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
			Image:   "registry.k8s.io/kube-controller-manager:" + version,
		},
	}}
}

// stamp returns the linker flags that make Kubernetes' commands report a release's version and commit, "" for none:
// without the stamp they report v0.0.0, and every version-skew check would judge a fiction.
func stamp(version, commit string) []string {
	number := strings.Split(strings.TrimPrefix(version, "v"), ".")
	ld := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		ld = append(ld,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+number[0],
			"-X "+pkg+".gitMinor="+number[1],
		)
		if commit != "" {
			ld = append(ld, "-X "+pkg+".gitCommit="+commit)
		}
		ld = append(ld, "-X "+pkg+".gitTreeState=clean")
	}
	return ld
}

// ID names the set and its version, for example "kubernetes-v1.26.0".
func (s Set) ID() string { return s.Name + "-" + s.Version }

// source returns the embedded files under the names the go command expects.
func (s Set) source() (map[string][]byte, error) {
	files := s.files
	if files == nil {
		sub, err := fs.Sub(modules, path.Join("modules", s.ID()))
		if err != nil {
			return nil, fmt.Errorf("opening embedded module %q: %w", s.ID(), err)
		}
		files = sub
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("listing embedded module %q: %w", s.ID(), err)
	}
	out := make(map[string][]byte, len(entries))
	for _, e := range entries {
		data, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading embedded file %q of %q: %w", e.Name(), s.ID(), err)
		}
		out[strings.TrimSuffix(e.Name(), embeddedSuffix)] = data
	}
	return out, nil
}

// key is different whenever the programs could be: it covers the files, the commands, the flags and the toolchain.
func (s Set) key(tc toolchain) (string, error) {
	source, err := s.source()
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(source))
	for name := range source {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s %d\n", name, len(source[name]))
		h.Write(source[name])
	}
	rest, err := json.Marshal(struct {
		Commands  []Command
		LDFlags   []string
		Flags     []string
		GoVersion string
		Platform  string
	}{s.Commands, s.LDFlags, buildFlags, tc.version, tc.platform})
	if err != nil {
		return "", fmt.Errorf("encoding the key of %q: %w", s.ID(), err)
	}
	h.Write(rest)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// choose picks sets by ID, in the order asked for.
func choose(known []Set, ids []string) ([]Set, error) {
	if len(ids) == 0 {
		ids = DefaultSets
	}
	byID := make(map[string]Set, len(known))
	var all []string
	for _, s := range known {
		byID[s.ID()] = s
		all = append(all, s.ID())
	}
	out := make([]Set, 0, len(ids))
	for _, id := range ids {
		s, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("set %q is not known: choose from %s", id, strings.Join(all, ", "))
		}
		out = append(out, s)
	}
	return out, nil
}
