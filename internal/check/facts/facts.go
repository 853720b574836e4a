// Package facts indexes a snapshot and decides what several checks ask of it. That is which manager runs where, with
// which flags, in which version, and which loops it runs. What a snapshot does not know stays unknown here.
package facts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

// Stage is how far a cluster has come, as its manifests say.
type Stage int

const (
	// StageUnknown is a cluster without a kube-controller-manager that could be read.
	StageUnknown Stage = iota
	// StageInTree is every kube-controller-manager with an in-tree provider and no cloud-controller-manager.
	StageInTree
	// StageMixed is anything between.
	StageMixed
	// StageExternal is every kube-controller-manager external and a cloud-controller-manager on some host.
	StageExternal
)

// Facts is a snapshot with the questions that several checks ask of it. What many checks look up is indexed once. So
// the cost of all checks together grows with the cluster and not with the cluster times the checks.
type Facts struct {
	*v1.Snapshot
	Opts Options
	// placed are the components by name, of hosts first and of Deployments after them.
	placed map[string][]Instance
	// inside are the kube-controller-managers that run the in-tree loops, and named is the provider that they name.
	inside []Instance
	named  string
	// scraped are what the managers say of themselves, by component and host.
	scraped map[managerKey]v1.Manager
	leases  map[string]v1.Lease
	// Foreign are cloud-controller-managers outside of the control plane's namespace, next to the managers of this
	// cluster.
	Foreign []v1.Workload
	// paths are the elements of Errors[i].Fact. Reported are the indexes of the errors that a check has asked for. As
	// the two fields below it, all copies of these facts share it.
	paths    [][]string
	Reported map[int]bool
	// Outcomes are those of the checks that were judged before. Blocker is the first of them that failed or is unknown.
	Outcomes map[string]v1.Outcome
	Blocker  *string
}

type managerKey struct{ component, host string }

// New indexes a snapshot for the checks. It does not change the snapshot.
func New(s *v1.Snapshot, opts Options) Facts {
	if opts.LeaseName == "" {
		opts.LeaseName = component.MigrationLease
	}
	accept := make(map[string]string, len(opts.Accept))
	for code, reason := range opts.Accept {
		accept[strings.ToUpper(code)] = reason
	}
	opts.Accept = accept
	known := *s
	p := placement{Snapshot: &known, placed: map[string][]Instance{}}
	p.place()
	f := Facts{
		Snapshot: &known,
		Opts:     opts,
		Foreign:  p.foreign,
		placed:   p.placed,
		scraped:  map[managerKey]v1.Manager{},
		leases:   map[string]v1.Lease{},
		Reported: map[int]bool{},
		Outcomes: map[string]v1.Outcome{},
		Blocker:  new(string),
	}
	f.inside = slices.DeleteFunc(slices.Clone(f.placed[component.KCM]), Instance.External)
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

// Instance is a component on its host. The host of one that runs as a Deployment or DaemonSet is the workload's name
// and nothing else.
type Instance struct {
	v1.Component
	Host v1.Host
}

// RunKind returns how the component is started.
func (p Instance) RunKind() string { return findings.OrElse(p.Runs, v1.RunsStaticPod) }

// OnHost reports whether the component has files and processes on a host that can be reached.
func (p Instance) OnHost() bool { return p.RunKind() != v1.RunsDeployment && !p.Host.APIOnly }

// String returns the component and its host, as kube-controller-manager@cp-1.
func (p Instance) String() string { return p.Name + "@" + p.Host.Name }

// Grep is the command that shows where a component is given a word.
func (p Instance) Grep(word string) string {
	word = quoteWord(word)
	parts := strings.SplitN(p.Manifest, "/", 3)
	if p.RunKind() == v1.RunsDeployment && len(parts) == 3 {
		return fmt.Sprintf(
			"kubectl -n %s get %s %s -o yaml | grep -n -- %s",
			shell.Quote(parts[1]),
			shell.Quote(strings.ToLower(parts[0])),
			shell.Quote(parts[2]),
			word,
		)
	}
	return fmt.Sprintf(
		"grep -n -- %s %s   # on host %s",
		word,
		shell.Quote(p.Manifest),
		shell.Quote(p.Host.Name),
	)
}

// quoteWord is what grep looks for, in quotes. A shell expands variables and commands between double ones.
func quoteWord(word string) string {
	if shell.IsPlain(strings.TrimLeft(word, "-")) {
		return strconv.Quote(word)
	}
	return shell.Quote(word)
}

// Flag returns the value of a flag, or what the component takes when it is not given.
func (p Instance) Flag(name, otherwise string) string {
	if v, ok := p.Flags[name]; ok {
		return v
	}
	return otherwise
}

// On reports whether a boolean flag is on.
func (p Instance) On(name string, otherwise bool) bool {
	v, ok := p.Flags[name]
	if !ok {
		return otherwise
	}
	b, err := strconv.ParseBool(v)
	return err == nil && b
}

// External reports whether a component leaves the cloud loops to another manager.
func (p Instance) External() bool {
	v := p.Flag("cloud-provider", "")
	return v == "external" || v == ""
}

// Migrates reports whether leader migration is in effect: without leader election the flag does nothing.
func (p Instance) Migrates() bool {
	return p.On("enable-leader-migration", false) && p.On("leader-elect", true)
}

// InstancesOf returns every component of the name whose flags could be understood: static pods and systemd units by
// host, then those that run as Deployments. Callers may keep the slice and must not change it.
func (f Facts) InstancesOf(name string) []Instance { return slices.Clip(f.placed[name]) }

// AllManagers returns every kube-controller-manager, then every cloud-controller-manager.
func (f Facts) AllManagers() []Instance {
	return append(f.InstancesOf(component.KCM), f.InstancesOf(component.CCM)...)
}

// InTree returns the kube-controller-managers that run the in-tree loops.
func (f Facts) InTree() []Instance { return slices.Clip(f.inside) }

// Provider is the in-tree provider that the managers name; empty when they name none or several. Once they are external
// it is what the snapshot says, from the new manager's flags.
func (f Facts) Provider() string { return f.named }

// oneProvider is the provider that all in-tree managers name, else what the snapshot says; empty when they name
// several.
func (f *Facts) oneProvider() string {
	name := ""
	for _, p := range f.inside {
		switch n := p.Flag("cloud-provider", ""); {
		case name == "":
			name = n
		case name != n:
			return ""
		}
	}
	return findings.OrElse(name, f.Cluster.Provider)
}

// Stage returns how far the cluster has come.
func (f Facts) Stage() Stage {
	kcms, in, ccms := len(f.InstancesOf(component.KCM)), len(f.InTree()), len(f.InstancesOf(component.CCM))
	switch {
	case kcms == 0:
		return StageUnknown
	case in == kcms && ccms == 0:
		return StageInTree
	case in == 0 && ccms > 0:
		return StageExternal
	}
	return StageMixed
}

// UnknownReasons returns why facts under one of the patterns are unknown, in the snapshot's order; nil when all of them
// were gathered. A pattern is the beginning of a fact's path in which * stands for one element: hosts/*/processes
// covers hosts/cp-1/processes/kube-apiserver.
func (f Facts) UnknownReasons(patterns ...string) []string {
	var out []string
	if len(f.paths) == 0 {
		return nil
	}
	wants := make([][]string, 0, len(patterns))
	for _, p := range patterns {
		wants = append(wants, strings.Split(p, "/"))
	}
	for i, e := range f.Errors {
		if slices.ContainsFunc(wants, func(w []string) bool { return isPathPrefix(w, f.paths[i]) }) {
			out = append(out, e.Error)
			f.Reported[i] = true
		}
	}
	return out
}

func isPathPrefix(want, have []string) bool {
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

// Missing returns the finding that says why facts under the patterns are unknown; false when all of them were gathered.
func (f Facts) Missing(patterns ...string) (v1.Finding, bool) {
	errs := f.UnknownReasons(patterns...)
	finding := findings.Unknown("%s", strings.Join(errs, "; "))
	if slices.ContainsFunc(errs, func(e string) bool { return strings.Contains(e, "forbidden: ") }) {
		finding.Fix = RefusalLook
	}
	return finding, len(errs) > 0
}

// RefusalLook is what to look at where the API server did not let the caller read what a check goes by.
const RefusalLook = "kubectl auth can-i --list"

// MinorOf is the minor version of a component: its image's tag, or else the API server's, from which kubeadm's
// components do not differ.
func (f Facts) MinorOf(p Instance) (int, bool) {
	if p.Name == component.CCM {
		return f.ccmMinor(p.Image)
	}
	if m, ok := p.Minor(); ok {
		return m, true
	}
	return VersionMinor(f.Cluster.Version)
}

// ProgramVersion of a component by its image's tag, or by what the program of its unit says.
func (p Instance) ProgramVersion() (string, bool) {
	if v, ok := ImageVersion(p.Image); ok {
		return v, true
	}
	return p.Version, p.Version != ""
}

// Minor version of a component by itself.
func (p Instance) Minor() (int, bool) {
	v, ok := p.ProgramVersion()
	if !ok {
		return 0, false
	}
	return VersionMinor(v)
}

// Unversioned says that the version of a component is not known, and what was looked at.
func (p Instance) Unversioned() string {
	if p.Unit != "" {
		return "the version of " + p.String() + " is not known: the program of unit " + p.Unit + " was not asked, or did not say it"
	}
	return "the version of " + p.String() + " is not known from its image " + p.Image
}

// ccmMinor is the minor version of the library inside a cloud-controller-manager image. Our own images carry our
// version, not the library's.
func (f Facts) ccmMinor(image string) (int, bool) {
	switch {
	case image == f.Opts.Image && f.Opts.CCMMinor != 0, image == "" && f.Opts.CCMMinor != 0:
		return f.Opts.CCMMinor, true
	case Own(image):
		return DefaultCCMMinor, true
	}
	if i, ok := cloudprovider.ImageOf(image); ok {
		return i.Minor, true
	}
	return imageMinor(image)
}

// Own reports whether an image is this project's, which understands the names of both dialects and migrates all loops
// by default.
func Own(image string) bool { return proven.Ours(image) }

func imageMinor(image string) (int, bool) {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return VersionMinor(tag)
}

// VersionMinor is 26 of v1.26.0.
func VersionMinor(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || (parts[0] != "1" && parts[0] != "0") {
		return 0, false
	}
	m, err := strconv.Atoi(parts[1])
	return m, err == nil
}

// manager returns what the manager of a host says of itself.
func (f Facts) manager(component, host string) (v1.Manager, bool) {
	m, ok := f.scraped[managerKey{component, host}]
	return m, ok
}

// Scrapes are what the processes of a component report: one on a host, one for each pod of a Deployment. Host of the
// latter is the Deployment's name followed by the pod's.
func (f Facts) Scrapes(p Instance) []v1.Manager {
	if m, ok := f.manager(p.Name, p.Host.Name); ok {
		return []v1.Manager{m}
	}
	if p.RunKind() != v1.RunsDeployment {
		return nil
	}
	var out []v1.Manager
	for _, m := range f.Managers {
		if m.Component == p.Name &&
			(strings.HasPrefix(m.Host, p.Host.Name+"/") || !strings.Contains(m.Host, "/") && len(f.placed[p.Name]) == 1) {
			out = append(out, m) // by pod, or by the host on which the only workload of its kind has a pod
		}
	}
	return out
}

// Lease returns the lease of a name; false when the snapshot has none.
func (f Facts) Lease(name string) (v1.Lease, bool) {
	l, ok := f.leases[name]
	return l, ok
}

// Expected returns the loops that some manager has to run, as the managers' flags say. A loop that is switched off
// everywhere is not expected of anybody.
func (f Facts) Expected() []controllernames.Loop {
	var out []controllernames.Loop
	for _, loop := range controllernames.Loops {
		if slices.ContainsFunc(f.AllManagers(), func(p Instance) bool { return f.WouldRun(p, loop) }) {
			out = append(out, loop)
		}
	}
	return out
}

// isLacking reports whether a provider does not implement what a loop needs.
func isLacking(name string, loop controllernames.Loop) bool {
	provider, known := cloudprovider.Lookup(name)
	return known &&
		(loop == controllernames.Service && !provider.LoadBalancers || loop == controllernames.Route && !provider.Routes)
}

// WouldRun reports whether a manager with these flags would run a loop if it led. A controller whose provider does not
// implement its interface ends at once: vSphere has neither load balancers nor routes.
func (f Facts) WouldRun(p Instance, loop controllernames.Loop) bool {
	if SwitchedOff(p.Flag("controllers", "*"), loop) || isLacking(f.Provider(), loop) {
		return false
	}
	cidrs, routes := p.On("allocate-node-cidrs", false), p.On("configure-cloud-routes", true)
	if p.Name == component.CCM {
		return loop != controllernames.NodeIPAM &&
			(loop != controllernames.Route || routes && p.Flag("cluster-cidr", "") != "")
	}
	switch loop {
	case controllernames.NodeIPAM:
		return cidrs
	case controllernames.Route:
		return !p.External() && cidrs && routes
	case controllernames.Service, controllernames.NodeLifecycle:
	}
	return !p.External()
}

// SwitchedOff reads --controllers, in which "*" means all, "-x" all but x, and a bare list only what it names.
func SwitchedOff(controllers string, loop controllernames.Loop) bool {
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

// StateSentence says where a cluster stands between its two ends.
func (f Facts) StateSentence() string {
	return fmt.Sprintf(
		"%d of %s in-tree, %s",
		len(f.InTree()),
		findings.Plural(len(f.InstancesOf(component.KCM)), component.KCM),
		findings.Plural(len(f.InstancesOf(component.CCM)), component.CCM),
	)
}
