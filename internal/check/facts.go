package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Components, as manifests and leader migration configs name them.
const (
	kas = "kube-apiserver"
	kcm = "kube-controller-manager"
	ccm = "cloud-controller-manager"
)

// stage is how far a cluster has come, as its manifests say.
type stage int

const (
	// stageUnknown is a cluster without a kube-controller-manager that could be read.
	stageUnknown stage = iota
	// stageInTree is every kube-controller-manager with an in-tree provider and no cloud-controller-manager.
	stageInTree
	// stageMixed is anything between.
	stageMixed
	// stageExternal is every kube-controller-manager external and a cloud-controller-manager on some host.
	stageExternal
)

// facts is a snapshot with the questions that several checks ask of it. What many checks look up is indexed once, so that the cost of all checks
// together grows with the cluster and not with the cluster times the checks.
type facts struct {
	*v1.Snapshot
	opts Options
	// placed are the components by name, of hosts first and of Deployments after them.
	placed map[string][]placed
	// inside are the kube-controller-managers that run the in-tree loops, and named is the provider that they name.
	inside []placed
	named  string
	// scraped are what the managers say of themselves, by component and host.
	scraped map[managerKey]v1.Manager
	leases  map[string]v1.Lease
	// foreign are cloud-controller-managers outside of the control plane's namespace, beside the managers of this cluster.
	foreign []v1.Workload
	// paths are the elements of Errors[i].Fact, and reported tells which of the errors some check has asked for.
	paths    [][]string
	reported map[int]bool
	// outcomes of the checks that were judged before, and blocker, the first of them that failed or is unknown.
	outcomes map[string]v1.Outcome
	blocker  *string
}

type managerKey struct{ component, host string }

func newFacts(s *v1.Snapshot, opts Options) facts {
	if opts.LeaseName == "" {
		opts.LeaseName = DefaultLeaseName
	}
	accept := make(map[string]string, len(opts.Accept))
	for code, reason := range opts.Accept {
		accept[strings.ToUpper(code)] = reason
	}
	opts.Accept = accept
	known := *s
	f := facts{Snapshot: &known, opts: opts, placed: map[string][]placed{}, scraped: map[managerKey]v1.Manager{}, leases: map[string]v1.Lease{}, reported: map[int]bool{}, outcomes: map[string]v1.Outcome{}, blocker: new(string)}
	f.Hosted = slices.DeleteFunc(slices.Clone(s.Hosted), func(c v1.Component) bool { return !f.isOwn(c.Manifest) }) // what earlier versions took for components
	f.place()
	f.inside = slices.DeleteFunc(slices.Clone(f.placed[kcm]), placed.external)
	f.named = f.oneProvider()
	for _, m := range slices.Backward(s.Managers) { // the first one counts
		f.scraped[managerKey{m.Component, m.Host}] = m
	}
	for _, l := range slices.Backward(s.Leases) {
		f.leases[l.Name] = l
	}
	for _, e := range s.Errors {
		f.paths = append(f.paths, strings.Split(e.Fact, "/"))
	}
	return f
}

// place indexes the components whose flags could be understood.
func (f *facts) place() {
	for _, h := range f.Hosts {
		for _, c := range h.Components {
			if c.Error == "" {
				f.placed[c.Name] = append(f.placed[c.Name], placed{Component: c, host: h})
			}
		}
	}
	for _, c := range f.Hosted {
		f.placeWorkload(c)
	}
	own, foreign := f.workloadManagers()
	isOwned := slices.ContainsFunc(f.placed[kcm], func(p placed) bool { return !p.external() }) || len(f.placed[ccm])+len(own) > 0
	if !isOwned {
		own, foreign = foreign, nil // nobody else runs the loops
	}
	for _, w := range own {
		c := managerOf(w)
		f.placeWorkload(v1.Component{
			Name: ccm, Runs: v1.RunsDeployment, Manifest: w.Ref, Image: c.Image, Command: c.Command, Flags: c.Flags, EnvNames: c.EnvNames, Replicas: ptr.To(w.Replicas),
		})
	}
	// Whoever may create a Deployment in some namespace does not decide what checks find.
	f.foreign = foreign
	isForeign := func(w v1.Workload) bool {
		return slices.ContainsFunc(foreign, func(o v1.Workload) bool { return o.Ref == w.Ref })
	}
	f.Workloads = slices.DeleteFunc(slices.Clone(f.Workloads), isForeign)
}

// placeWorkload indexes a component that the API runs. It has no host, and stands in for one under its own name, so that findings can say where it is.
func (f *facts) placeWorkload(c v1.Component) {
	if c.Error != "" || c.Name == ccm && c.Replicas != nil && *c.Replicas == 0 {
		return
	}
	f.placed[c.Name] = append(f.placed[c.Name], placed{Component: c, host: v1.Host{Name: c.Manifest}})
}

// workloadManagers are the cloud-controller-managers that are workloads: DaemonSets of the control plane, whose Deployments are known as components,
// and what is in other namespaces.
func (f *facts) workloadManagers() (own, foreign []v1.Workload) {
	for _, w := range f.Workloads {
		switch {
		case w.Role != v1.RoleCCM || len(w.Containers) == 0:
		case !f.isOwn(w.Ref):
			foreign = append(foreign, w)
		case strings.HasPrefix(w.Ref, "DaemonSet/"):
			own = append(own, w)
		}
	}
	return own, foreign
}

// isOwn tells whether a workload is in the namespace of the control plane.
func (f *facts) isOwn(ref string) bool {
	return inSystem(ref) || f.Cluster.Seed != "" && strings.Contains(ref, "/"+f.Cluster.Seed+"/")
}

// inSystem tells whether a workload is in the namespace of a cluster's own control plane.
func inSystem(ref string) bool { return strings.Contains(ref, "/kube-system/") }

// placed is a component on its host. The host of one that runs as a Deployment or DaemonSet is the workload's name and nothing else.
type placed struct {
	v1.Component
	host v1.Host
}

// runs tells how the component is started.
func (p placed) runs() string { return orElse(p.Runs, v1.RunsStaticPod) }

// onHost tells that the component has files and processes on a host that can be reached.
func (p placed) onHost() bool { return p.runs() != v1.RunsDeployment && !p.host.APIOnly }

func (p placed) String() string { return p.Name + "@" + p.host.Name }

// grep is the command that shows where a component is given a word.
func (p placed) grep(word string) string {
	parts := strings.SplitN(p.Manifest, "/", 3)
	if p.runs() == v1.RunsDeployment && len(parts) == 3 {
		return fmt.Sprintf("kubectl -n %s get %s %s -o yaml | grep -n -- %q", parts[1], strings.ToLower(parts[0]), parts[2], word)
	}
	return fmt.Sprintf("grep -n -- %q %s   # on host %s", word, p.Manifest, p.host.Name)
}

// flag returns the value of a flag, or what the component takes when it is not given.
func (p placed) flag(name, otherwise string) string {
	if v, ok := p.Flags[name]; ok {
		return v
	}
	return otherwise
}

// on tells whether a boolean flag is on.
func (p placed) on(name string, otherwise bool) bool {
	v, ok := p.Flags[name]
	if !ok {
		return otherwise
	}
	b, err := strconv.ParseBool(v)
	return err == nil && b
}

// external tells whether a component leaves the cloud loops to somebody else.
func (p placed) external() bool {
	v := p.flag("cloud-provider", "")
	return v == "external" || v == ""
}

// migrates tells whether leader migration is in effect: without leader election the flag does nothing.
func (p placed) migrates() bool {
	return p.on("enable-leader-migration", false) && p.on("leader-elect", true)
}

// all returns every component of the name whose flags could be understood: static pods and systemd units by host, then those that run as
// Deployments. Callers may keep the slice and must not change it.
func (f facts) all(name string) []placed { return slices.Clip(f.placed[name]) }

// managers returns every kube-controller-manager, then every cloud-controller-manager.
func (f facts) managers() []placed { return append(f.all(kcm), f.all(ccm)...) }

// inTree returns the kube-controller-managers that run the in-tree loops.
func (f facts) inTree() []placed { return slices.Clip(f.inside) }

// provider is the in-tree provider that the managers name; empty when they name none or several. Once they are external it is what the
// snapshot says, from the new manager's flags.
func (f facts) provider() string { return f.named }

// oneProvider is the provider that all in-tree managers name, else what the snapshot says; empty when they name several.
func (f *facts) oneProvider() string {
	name := ""
	for _, p := range f.inside {
		switch n := p.flag("cloud-provider", ""); {
		case name == "":
			name = n
		case name != n:
			return ""
		}
	}
	return orElse(name, f.Cluster.Provider)
}

func (f facts) stage() stage {
	kcms, in, ccms := len(f.all(kcm)), len(f.inTree()), len(f.all(ccm))
	switch {
	case kcms == 0:
		return stageUnknown
	case in == kcms && ccms == 0:
		return stageInTree
	case in == 0 && ccms > 0:
		return stageExternal
	}
	return stageMixed
}

// gathering returns why facts under one of the patterns are unknown, in the snapshot's order; nil when all of them were gathered. A pattern is
// the beginning of a fact's path in which * stands for one element: hosts/*/processes covers hosts/cp-1/processes/kube-apiserver.
func (f facts) gathering(patterns ...string) []string {
	var out []string
	if len(f.paths) == 0 {
		return nil
	}
	wants := make([][]string, 0, len(patterns))
	for _, p := range patterns {
		wants = append(wants, strings.Split(p, "/"))
	}
	for i, e := range f.Errors {
		if slices.ContainsFunc(wants, func(w []string) bool { return under(w, f.paths[i]) }) {
			out = append(out, e.Error)
			f.reported[i] = true
		}
	}
	return out
}

func under(want, have []string) bool {
	if len(have) < len(want) {
		return false
	}
	for i, w := range want {
		if w != "*" && w != have[i] {
			return false
		}
	}
	return true
}

// missing returns the finding that says why facts under the patterns are unknown; false when all of them were gathered.
func (f facts) missing(patterns ...string) (v1.Finding, bool) {
	errs := f.gathering(patterns...)
	return unknown("%s", strings.Join(errs, "; ")), len(errs) > 0
}

// minorOf is the minor version of a component: its image's tag, or else the API server's, from which kubeadm's components do not differ.
func (f facts) minorOf(p placed) (int, bool) {
	if p.Name == ccm {
		return f.ccmMinor(p.Image)
	}
	if m, ok := p.minor(); ok {
		return m, true
	}
	return versionMinor(f.Cluster.Version)
}

// version of a component by its image's tag, or by what the program of its unit says.
func (p placed) version() (string, bool) {
	if v, ok := imageVersion(p.Image); ok {
		return v, true
	}
	return p.Version, p.Version != ""
}

// minor version of a component by itself.
func (p placed) minor() (int, bool) {
	v, ok := p.version()
	if !ok {
		return 0, false
	}
	return versionMinor(v)
}

// unversioned says that the version of a component is not known, and what was looked at.
func (p placed) unversioned() string {
	if p.Unit != "" {
		return "the version of " + p.String() + " is not known: the program of unit " + p.Unit + " was not asked, or did not say it"
	}
	return "the version of " + p.String() + " is not known from its image " + p.Image
}

// ccmMinor is the minor version of the library inside a cloud-controller-manager image. Our own images carry our version, not the library's.
func (f facts) ccmMinor(image string) (int, bool) {
	switch {
	case image == f.opts.Image && f.opts.CCMMinor != 0, image == "" && f.opts.CCMMinor != 0:
		return f.opts.CCMMinor, true
	case own(image):
		return DefaultCCMMinor, true
	}
	if i, ok := catalogue.ImageOf(image); ok {
		return i.Minor, true
	}
	return imageMinor(image)
}

// own tells whether an image is this project's, which understands the names of both dialects and migrates all loops by default.
func own(image string) bool { return proven.Ours(image) }

func imageMinor(image string) (int, bool) {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return versionMinor(tag)
}

// versionMinor is 26 of v1.26.0.
func versionMinor(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || (parts[0] != "1" && parts[0] != "0") {
		return 0, false
	}
	m, err := strconv.Atoi(parts[1])
	return m, err == nil
}

// manager returns what the manager of a host says of itself.
func (f facts) manager(component, host string) (v1.Manager, bool) {
	m, ok := f.scraped[managerKey{component, host}]
	return m, ok
}

// scrapes are what the processes of a component say of themselves: one on a host, one for each pod of a Deployment, whose Host is the Deployment's
// name with the pod's behind it.
func (f facts) scrapes(p placed) []v1.Manager {
	if m, ok := f.manager(p.Name, p.host.Name); ok {
		return []v1.Manager{m}
	}
	var out []v1.Manager
	for _, m := range f.Managers {
		if p.runs() == v1.RunsDeployment && m.Component == p.Name && (strings.HasPrefix(m.Host, p.host.Name+"/") || !strings.Contains(m.Host, "/") && len(f.placed[p.Name]) == 1) {
			out = append(out, m) // by pod, or by the host on which the only workload of its kind has a pod
		}
	}
	return out
}

func (f facts) lease(name string) (v1.Lease, bool) {
	l, ok := f.leases[name]
	return l, ok
}

// expected returns the loops that some manager has to run, as the managers' flags say. A loop that is switched off everywhere is not
// expected of anybody.
func (f facts) expected() []controllernames.Loop {
	var out []controllernames.Loop
	for _, loop := range controllernames.Loops {
		if slices.ContainsFunc(f.managers(), func(p placed) bool { return f.runs(p, loop) }) {
			out = append(out, loop)
		}
	}
	return out
}

// runs tells whether a manager with these flags would run a loop if it led.
func (f facts) runs(p placed, loop controllernames.Loop) bool {
	if switchedOff(p.flag("controllers", "*"), loop) {
		return false
	}
	cidrs, routes := p.on("allocate-node-cidrs", false), p.on("configure-cloud-routes", true)
	if p.Name == ccm {
		return loop != controllernames.NodeIPAM && (loop != controllernames.Route || routes && p.flag("cluster-cidr", "") != "")
	}
	switch loop {
	case controllernames.NodeIPAM:
		return cidrs
	case controllernames.Route:
		return !p.external() && cidrs && routes
	case controllernames.Service, controllernames.NodeLifecycle:
	}
	return !p.external()
}

// switchedOff reads --controllers, in which "*" means all, "-x" all but x, and a bare list only what it names.
func switchedOff(controllers string, loop controllernames.Loop) bool {
	all := false
	for entry := range strings.SplitSeq(controllers, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "*" {
			all = true
			continue
		}
		name, off := strings.CutPrefix(entry, "-")
		if l, _, ok := controllernames.Lookup(name); ok && l == loop {
			return off
		}
	}
	return !all
}

// stateSentence says where a cluster stands between its two ends.
func (f facts) stateSentence() string {
	return fmt.Sprintf("%d of %s in-tree, %s", len(f.inTree()), plural(len(f.all(kcm)), kcm), plural(len(f.all(ccm)), ccm))
}
