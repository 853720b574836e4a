package client

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// PlanOptions are the options of a plan, shared by check, plan and apply.
type PlanOptions struct {
	Options v1.Options
	Accept  []string
	// Given returns those of the named flags that the user gave, with their dashes; nil for none.
	Given GivenFlags
	// InProgress reports whether a migration of the cluster is under way.
	InProgress bool
}

// machines are the architectures of Linux, as nodes name them, by what a program says that it is for.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_ARM: "arm",
	elf.EM_RISCV: "riscv64", elf.EM_LOONGARCH: "loong64",
}

// plainArch is an architecture that can be part of a file's name. A kubelet labels its own Node, and may say anything.
var plainArch = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// takesProvider reports whether a kubelet is one that a plan changes. The others need no binary.
func takesProvider(h v1.Host) bool {
	if h.Kubelet == nil || h.Kubelet.Error != "" || h.APIOnly {
		return false
	}
	cloud := h.Kubelet.Flags["cloud-provider"]
	return cloud != "" && cloud != "external"
}

// readProviders returns the sums of the image credential provider's binaries, one for each architecture of the hosts
// where the path has a place for it. A binary for other hosts than there are is refused: their kubelets would be left
// as they are only after the first steps.
func readProviders(path string, snap *v1.Snapshot) (string, error) {
	archs := map[string]string{} // a node of each
	for _, h := range snap.Hosts {
		for _, n := range snap.Nodes {
			if arch := n.Labels[planstep.ArchLabel]; n.Name == h.NodeName && takesProvider(h) && plainArch.MatchString(arch) {
				archs[arch] = n.Name
			}
		}
	}
	perArch := strings.Contains(path, planstep.ArchPlaceholder)
	if perArch && len(archs) == 0 {
		return "", fmt.Errorf(
			"--credential-provider=%s: no node of a kubelet that changes shows its architecture (label %s): name one file",
			path, planstep.ArchLabel,
		)
	}
	var files []planstep.ProviderFile
	for arch, node := range archs {
		at := strings.ReplaceAll(path, planstep.ArchPlaceholder, arch)
		data, err := os.ReadFile(at)
		if err != nil {
			return "", fmt.Errorf("reading the image credential provider for node %s: %w", node, err)
		}
		if program, err := elf.NewFile(bytes.NewReader(data)); err == nil && machines[program.Machine] != arch {
			return "", fmt.Errorf("image credential provider %s is a program for %s, and node %s is %s: "+
				"give --credential-provider a path with %s, which stands for the architecture of a host",
				at, cmp.Or(machines[program.Machine], program.Machine.String()), node, arch, planstep.ArchPlaceholder)
		}
		f := planstep.ProviderFile{Path: at, SHA256: hostaccess.SHA256(data)}
		if perArch {
			f.Arch = arch
		}
		files = append(files, f)
	}
	if len(files) == 0 { // nothing is known of the nodes
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the image credential provider: %w", err)
		}
		return hostaccess.SHA256(data), nil
	}
	return planstep.ProviderSums(files), nil
}

// Choose fills in what was left to the cluster, and reports the result if it decides how long no manager runs the
// loops.
func (f *PlanOptions) Choose(c *Client, snap *v1.Snapshot) error {
	if f.Options.CredentialProvider != "" {
		sums, err := readProviders(f.Options.CredentialProvider, snap)
		if err != nil {
			return err
		}
		f.Options.CredentialProviderSHA256 = sums
	}
	if err := options.Validate(options.Defaults(f.Options)); err != nil {
		return err // before a check is asked about it: its rules take the options for what they say
	}
	chosen := f.Options.Strategy == ""
	f.Options = plan.Choose(snap, f.Options)
	if err := checkIgnoredOptions(f.Given, snap, f.Options); err != nil {
		return err
	}
	if chosen && f.Options.Strategy == planstep.Downtime {
		why := "this version or its cloud-controller-manager has no leader migration"
		if strategy, reason := draft.ChooseStrategy(snap, v1.Options{}); strategy == planstep.Downtime {
			why = reason
		}
		c.Narrate("strategy %s: %s", f.Options.Strategy, why)
	}
	return nil
}

// GatherOptions are the options that say what is read on the hosts. They are those of the plan in a file, if there is
// one that can be read.
func (f *PlanOptions) GatherOptions(file string) v1.Options {
	if file != "" {
		if p, err := ReadPlan(file); err == nil {
			return p.Options
		}
	}
	return f.Options
}

// CheckOptions returns the same options as the checks take them.
func (f *PlanOptions) CheckOptions() facts.Options {
	names := make([]string, 0, len(f.Options.Env))
	files := map[string]string{}
	for _, e := range f.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		names = append(names, name)
		if filepath.IsAbs(value) {
			files[name] = value
		}
	}
	accept := map[string]string{}
	for _, a := range f.Accept {
		code, reason, _ := strings.Cut(a, "=")
		accept[code] = reason
	}
	return facts.Options{
		InProgress:    f.InProgress,
		Strategy:      f.Options.Strategy,
		Shape:         f.Options.Shape,
		NodeIPAM:      f.Options.NodeIPAM,
		Volumes:       f.Options.Volumes,
		Image:         f.Options.Image,
		LeaseName:     f.Options.LeaseName,
		CCMEnv:        names,
		CCMFiles:      files,
		RenewDeadline: f.Options.RenewDeadline,
		ReplaceHosts:  f.Options.ReplaceHosts,
		TargetVersion: f.Options.TargetVersion,
		Accept:        accept,
		AcceptedBy:    UserName(),
		AcceptedAt:    Now().UTC(),

		CredentialProvider: f.Options.CredentialProvider != "",
	}
}

// AcceptAs accepts what a plan of a file does. What the command itself accepts comes behind it and counts where both
// do.
func (f *PlanOptions) AcceptAs(p *v1.Plan) {
	for _, finding := range compare.Accepted(p) {
		f.Accept = append([]string{finding.Code + "=" + finding.Accepted}, f.Accept...)
	}
}

// OtherCluster is the error for a plan of a file that is of another cluster than the one that was asked.
func OtherCluster(path string, p *v1.Plan, uid string) error {
	return exitcode.With(
		exitcode.Stale,
		"plan %s was made for the cluster with uid %s, this one has %s: check --context",
		path,
		p.Cluster.UID,
		uid,
	)
}

// ReadPlan reads a plan from a file and refuses one that this version cannot execute.
func ReadPlan(path string) (*v1.Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if wholefile.IsCutOff("plan", data) {
		return nil, fmt.Errorf("plan %s: its end is missing, it was cut off; copy it again, or make it again with transplant plan", path)
	}
	if err := checkPlanHeader(path, data); err != nil {
		return nil, err
	}
	var p v1.Plan
	if err := safeyaml.UnmarshalStrict(data, &p); err != nil {
		return nil, fmt.Errorf(
			"plan %s cannot be read as one of this version of transplant; use the version that wrote it, or undo what was edited: %w",
			path,
			err,
		)
	}
	if p.Direction != planstep.Forward {
		return nil, fmt.Errorf(
			"plan %s is a %s: apply executes migrations, rollback makes its own plan",
			path,
			p.Direction,
		)
	}
	if err := invariant.CheckWellFormed(&p); err != nil {
		return nil, fmt.Errorf(
			"plan %s cannot be executed; make it again with transplant plan --refresh, or undo what was edited:\n%w",
			path,
			err,
		)
	}
	return &p, nil
}

// checkPlanHeader says why a file is no plan of this version. What it is comes first: of another kind, or of a later
// version, no field would be known.
func checkPlanHeader(path string, data []byte) error {
	var whatever any
	if err := safeyaml.Unmarshal(data, &whatever); err != nil {
		return fmt.Errorf("reading the plan: %s is no YAML or JSON: %w; transplant plan --out writes one", path, err)
	}
	var head struct {
		v1.TypeMeta `json:",inline"`
		ToolVersion string `json:"toolVersion"`
	}
	if err := safeyaml.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("reading the plan: %s is no plan, but a list or a text; transplant plan --out writes one", path)
	}
	switch {
	case head.Kind == "":
		return fmt.Errorf(
			"reading the plan: %s is no plan, it is empty or names no kind; transplant plan --out writes one",
			path,
		)
	case head.Kind != v1.KindPlan:
		return fmt.Errorf(
			"reading the plan: %s is a %s, not a %s; transplant plan --out writes one",
			path,
			head.Kind,
			v1.KindPlan,
		)
	case head.APIVersion != v1.GroupVersion:
		return fmt.Errorf(
			"reading the plan: %s is of %q, and this version of transplant reads %s only; use the version that wrote it, or make the plan again with transplant plan",
			path,
			head.APIVersion,
			v1.GroupVersion,
		)
	}
	if err := (document.Form{Object: "plan " + path, Known: v1.PlanSchema}).Judge(
		head.Schema,
		head.ToolVersion,
	); err != nil {
		return fmt.Errorf("reading the plan: %w; or make the plan again with transplant plan", err)
	}
	return nil
}

// GivenFlags returns those of the named flags that stand on the command line, each with its dashes.
type GivenFlags func(names ...string) []string

// Among returns the named flags that were given; none where nothing is known of a command line.
func (g GivenFlags) Among(names ...string) []string {
	if g == nil {
		return nil
	}
	return g(names...)
}

// Refuse is an error that names those of the flags which were given and would do nothing; nil when none was.
func (g GivenFlags) Refuse(why string, names ...string) error {
	given := g.Among(names...)
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf(
		"%s would have no effect: %s; remove %s",
		strings.Join(given, ", "),
		why,
		map[bool]string{true: given[0], false: "them"}[len(given) == 1],
	)
}

// CheckAgainstPlan refuses options that differ from those of a plan which is there already: the plan's count. The same
// value again is no contradiction, so that a command which was interrupted can be repeated as it was.
func CheckAgainstPlan(flags GivenFlags, given, planned v1.Options, which string, except ...string) error {
	var differ []string
	for name, option := range PlanOptionFlags {
		if len(flags.Among(name)) == 0 || slices.Contains(except, name) {
			continue
		}
		if name == "image" && cloudprovider.StandsFor(given.Image, planned.Image) {
			continue // that is what the word stood for
		}
		if !reflect.DeepEqual(option(options.Defaults(given)), option(planned)) {
			differ = append(differ, "--"+name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("%s would have no effect: %s has options of its own, and others", strings.Join(differ, ", "), which)
}

// CheckAgainstFile is CheckAgainstPlan for a plan in a file, of which a new one can be made.
func CheckAgainstFile(flags GivenFlags, given, planned v1.Options, path string) error {
	if err := CheckAgainstPlan(flags, given, planned, "plan "+path); err != nil {
		return fmt.Errorf("%w; make a new plan with the flags, or leave them out", err)
	}
	return nil
}

// checkIgnoredOptions refuses options that no step of a plan for this cluster could follow.
func checkIgnoredOptions(flags GivenFlags, snap *v1.Snapshot, o v1.Options) error {
	var errs []error
	for _, ignored := range options.FindIgnored(snap, o) {
		errs = append(errs, flags.Refuse(ignored.Why, ignored.Flags...))
	}
	return errors.Join(errs...)
}

// PlanOptionFlags are the flags that stand in a plan's options, with the option of each.
var PlanOptionFlags = map[string]func(v1.Options) any{
	"strategy":              func(o v1.Options) any { return o.Strategy },
	"image":                 func(o v1.Options) any { return o.Image },
	"shape":                 func(o v1.Options) any { return o.Shape },
	"node-ipam":             func(o v1.Options) any { return o.NodeIPAM },
	"volumes":               func(o v1.Options) any { return o.Volumes },
	"credential-provider":   func(o v1.Options) any { return o.CredentialProvider },
	"disable-in-tree":       func(o v1.Options) any { return o.DisableInTree },
	"replace-hosts":         func(o v1.Options) any { return o.ReplaceHosts },
	"target-version":        func(o v1.Options) any { return o.TargetVersion },
	"ccm-env":               func(o v1.Options) any { return o.Env },
	"lease-name":            func(o v1.Options) any { return o.LeaseName },
	"retry-period":          func(o v1.Options) any { return o.RetryPeriod },
	"renew-deadline":        func(o v1.Options) any { return o.RenewDeadline },
	"cluster-name":          func(o v1.Options) any { return o.ClusterName },
	"keep-leader-migration": func(o v1.Options) any { return o.KeepLeaderMigration },
	"pause-after-canary":    func(o v1.Options) any { return o.PauseAfterCanary },
	"max-unavailable":       func(o v1.Options) any { return o.MaxUnavailable },
	"drain-timeout":         func(o v1.Options) any { return o.DrainTimeout },
	"force-unmanaged":       func(o v1.Options) any { return o.ForceUnmanaged },
	"soak":                  func(o v1.Options) any { return o.Soak },
}

// Blocking counts the findings that block, in words.
func Blocking(r v1.CheckReport) string {
	return english.Count(r.Summary.Failed+r.Summary.Unknown-r.Summary.Accepted, "finding")
}

// BlockingFindings are the findings that keep apply from starting; with strict, warnings that check --strict does not
// let pass are among them.
func BlockingFindings(r v1.CheckReport, strict bool) []v1.Finding {
	var out []v1.Finding
	for _, f := range r.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown || strict && check.BlocksStrictly(f)) && f.Accepted == "" {
			out = append(out, f)
		}
	}
	return out
}

// WritePlan writes a plan whole or not at all.
func WritePlan(path string, p *v1.Plan) error {
	data, err := yaml.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return wholefile.Write(path, wholefile.Mark("plan", data), 0o600)
}

// RunFlags may be given again for a run of a plan that was begun; see overKubelets.
var RunFlags = []string{"max-unavailable", "drain-timeout", "force-unmanaged", "soak"}
