package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// planFlags are the options of a plan, shared by check, plan and apply.
type planFlags struct {
	options v1.Options
	accept  []string
	// cmd is the command whose flags they are.
	cmd *cobra.Command
}

func (f *planFlags) flags(cmd *cobra.Command) {
	f.cmd = cmd
	fl := cmd.Flags()
	fl.StringVar(&f.options.Strategy, "strategy", "", "leader-migration or downtime (default: leader-migration where two hosts can hand over, else downtime)")
	fl.StringVar(&f.options.Image, "image", "", "image of the cloud-controller-manager, or official for the one that the provider's makers publish for the cluster's own minor (default: ours where it is proven, else the official one)")
	fl.StringVar(&f.options.Shape, "shape", "", "static-pod or daemonset: how the cloud-controller-manager runs (default: static-pod where kubelets read manifests)")
	fl.StringVar(&f.options.NodeIPAM, "node-ipam", "", "keep (in the kube-controller-manager) or move (to the cloud-controller-manager) (default: keep, unless the allocator is the cloud's)")
	fl.StringVar(&f.options.Volumes, "volumes", "", "csi or in-tree: who attaches volumes afterwards (default: csi where its driver is on every node)")
	fl.StringVar(&f.options.CredentialProvider, "credential-provider", "", "binary of the image credential provider, on this machine; it is copied to every host whose kubelet needs it")
	fl.BoolVar(&f.options.ReplaceHosts, "replace-hosts", false, "control-plane hosts are replaced and never edited: the plan tells what to create, and waits")
	fl.StringVar(&f.options.TargetVersion, "target-version", "", "Kubernetes version of the control plane in the end, e.g. v1.27.4: its images go there in the restarts of the migration, one minor up at most (default: no version changes)")
	fl.StringArrayVar(&f.options.Env, "ccm-env", nil, "environment of the cloud-controller-manager, NAME=VALUE; {host} stands for the host's name; never a secret, name a file instead")
	fl.StringVar(&f.options.LeaseName, "lease-name", planlayout.DefaultLease, "name of the migration lease")
	fl.StringVar(&f.options.RetryPeriod, "retry-period", options.DefaultRetryPeriod, "--leader-elect-retry-period of the managers during the migration")
	fl.StringVar(&f.options.RenewDeadline, "renew-deadline", options.DefaultRenewDeadline, "--leader-elect-renew-deadline of the managers during the migration")
	fl.StringVar(&f.options.ClusterName, "cluster-name", "", "--cluster-name of the cloud-controller-manager (default: what the live kube-controller-manager has)")
	fl.BoolVar(&f.options.KeepLeaderMigration, "keep-leader-migration", false, "leave leader migration on at the end, for a quicker way back")
	kubeletFlags(fl, &f.options)
	canaryFlags(fl, &f.options)
	fl.StringArrayVar(&f.accept, "accept", nil, `accept a finding that blocks, CODE="reason"; mandatory ones cannot be accepted. Apply also takes differences that its verification finds, OBJECT="reason"`)
	for flag, words := range map[string][]string{"strategy": options.Strategies, "shape": options.Shapes, "node-ipam": options.NodeIPAMChoices, "volumes": options.VolumesChoices} {
		complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// choose fills in what was left to the cluster, and tells what it came to where that decides how long nobody runs the loops.
func (f *planFlags) choose(c *connection, snap *v1.Snapshot) error {
	if path := f.options.CredentialProvider; path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the image credential provider: %w", err)
		}
		f.options.CredentialProviderSHA256 = hostaccess.SHA256(data)
	}
	if err := options.Validate(options.Defaults(f.options)); err != nil {
		return err // before a check is asked about it: its rules take the options for what they say
	}
	chosen := f.options.Strategy == ""
	f.options = plan.Choose(snap, f.options)
	if err := checkIgnoredOptions(f.cmd, snap, f.options); err != nil {
		return err
	}
	if chosen && f.options.Strategy == planstep.Downtime {
		why := "this version or its cloud-controller-manager has no leader migration"
		if strategy, reason := draft.ChooseStrategy(snap, v1.Options{}); strategy == planstep.Downtime {
			why = reason
		}
		c.narrate("strategy %s: %s", f.options.Strategy, why)
	}
	return nil
}

// gathered are the options that say what is looked for on the hosts: those of the plan in a file, where there is one that can be read.
func (f *planFlags) gathered(args []string) v1.Options {
	if len(args) == 1 {
		if p, err := readPlan(args[0]); err == nil {
			return p.Options
		}
	}
	return f.options
}

// acceptAs accepts what a plan of a file does. What the command itself accepts comes behind it and counts where both do.
func (f *planFlags) acceptAs(p *v1.Plan) {
	for _, finding := range compare.Accepted(p) {
		f.accept = append([]string{finding.Code + "=" + finding.Accepted}, f.accept...)
	}
}

func (f *planFlags) checkOptions() facts.Options {
	names := make([]string, 0, len(f.options.Env))
	files := map[string]string{}
	for _, e := range f.options.Env {
		name, value, _ := strings.Cut(e, "=")
		names = append(names, name)
		if filepath.IsAbs(value) {
			files[name] = value
		}
	}
	accept := map[string]string{}
	for _, a := range f.accept {
		code, reason, _ := strings.Cut(a, "=")
		accept[code] = reason
	}
	return facts.Options{Strategy: f.options.Strategy, Shape: f.options.Shape, NodeIPAM: f.options.NodeIPAM, Volumes: f.options.Volumes, Image: f.options.Image, LeaseName: f.options.LeaseName, CCMEnv: names, CCMFiles: files, RenewDeadline: f.options.RenewDeadline,
		ReplaceHosts: f.options.ReplaceHosts, TargetVersion: f.options.TargetVersion, Accept: accept, AcceptedBy: userName(), AcceptedAt: now().UTC()}
}

func newPlan(c *connection) *cobra.Command {
	var f planFlags
	var o planOutput
	cmd := &cobra.Command{
		Use: "plan", Short: "Print the steps of the migration, and save them", Args: cobra.NoArgs,
		Example: "  transplant plan --out plan.yaml\n  transplant plan --until leader-migration --out plan.yaml\n" +
			"  transplant plan --refresh plan.yaml\n  transplant plan --from-snapshot snapshot.yaml -o markdown > change-request.md",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.plan(cmd.Context(), &f, o) },
	}
	f.flags(cmd)
	c.proof.flags(cmd.Flags())
	fl := cmd.Flags()
	fl.StringVar(&o.from, "from-snapshot", "", "plan for a snapshot in a file instead of a live cluster")
	fl.StringVar(&o.out, "out", "", "also save the plan in this file")
	fl.StringVar(&o.until, "until", "", "apply stops behind this step or phase, and goes on with the rest when it is run again")
	fl.StringVar(&o.refresh, "refresh", "", "make the plan in this file anew with its own options, and say which facts have changed")
	o.format = formatFlag(cmd, "text", "wide", "markdown", "json", "yaml")
	fl.BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there is something to change")
	return cmd
}

// planOutput is where a plan comes from and goes to.
type planOutput struct {
	from, out, until, refresh string
	detailed                  bool
	format                    *format
}

func (c *connection) plan(ctx context.Context, f *planFlags, o planOutput) error {
	if err := checkFromSnapshot(f.cmd, o.from, c.proof.asked); err != nil {
		return err
	}
	older, err := refreshed(o.refresh, f, &o)
	if err != nil {
		return err
	}
	snap, err := c.snapshotFrom(ctx, o.from, f.options)
	if err != nil {
		return err
	}
	c.header(snap.Cluster)
	if err := check.ValidateAccept(f.checkOptions().Accept); err != nil {
		return err
	}
	if err := f.choose(c, snap); err != nil {
		return err
	}
	report := check.Run(snap, f.checkOptions())
	p, err := plan.Make(snap, f.options, report.Findings, timeOfPlan(snap, o.from))
	if err != nil {
		return withCode(exitBlocked, "no plan can be made: %w%s", err, c.wayOut(ctx, o.from))
	}
	if err := cutAt(p, o.until); err != nil {
		return err
	}
	if older != nil {
		c.tellChanged(o.refresh, older, p)
	}
	if o.out != "" {
		if err := writeYAML(o.out, p); err != nil {
			return err
		}
		c.narrate("saved %s; carry it out with: %s", o.out, c.command("apply", quotedWord(o.out)))
	}
	if err := c.printMadePlan(o.format, p); err != nil {
		return err
	}
	if report.Summary.Blocked {
		return withCode(exitBlocked, "this plan is blocked by %s: see transplant check", blocking(report))
	}
	if o.detailed && len(p.Steps) > 0 {
		return withCode(exitPending, "")
	}
	return nil
}

// timeOfPlan returns when a plan is made. A snapshot in a file gives the same plan whenever it is read, byte for byte.
func timeOfPlan(snap *v1.Snapshot, from string) time.Time {
	if from != "" {
		return snap.TakenAt
	}
	return now()
}

// printMadePlan prints a plan in one of the formats of the command plan.
func (c *connection) printMadePlan(output *format, p *v1.Plan) error {
	return output.print(c.out, p, map[string]func() error{
		"text":     func() error { return printPlan(c.out, p, c.layoutFor(c.out, false)) },
		"wide":     func() error { return printPlan(c.out, p, c.layoutFor(c.out, true)) },
		"markdown": func() error { return planMarkdown(c.out, p) },
	})
}

// cutAt notes the step or phase behind which the plan stops; empty for the whole plan.
func cutAt(p *v1.Plan, until string) error {
	if until == "" {
		return nil
	}
	n, err := planstep.Until(p, until)
	if err != nil {
		return err
	}
	p.Until = p.Steps[n-1].ID
	return nil
}

// refreshed reads the plan that is made anew, whose options count again; it is saved where it was, unless another file is named.
func refreshed(path string, f *planFlags, o *planOutput) (*v1.Plan, error) {
	if path == "" {
		return nil, nil
	}
	p, err := readPlan(path)
	if err != nil {
		return nil, err
	}
	if err := checkAgainstPlan(f.cmd, f.options, p.Options, "plan "+path); err != nil {
		return nil, err
	}
	f.options = p.Options
	f.acceptAs(p)
	if o.until == "" {
		o.until = p.Until
	}
	if o.out == "" {
		o.out = path
	}
	return p, nil
}

func (c *connection) tellChanged(path string, older, newer *v1.Plan) {
	changed := compare.ChangedFacts(older, newer)
	if len(changed) == 0 {
		c.narrate("every fact of %s still holds", path)
		return
	}
	c.narrate("%s of %s changed:", count(len(changed), "fact"), path)
	for _, line := range changed {
		c.narrate("  %s", line)
	}
}

// wayOut says what to do where no plan can be made because a migration was begun.
func (c *connection) wayOut(ctx context.Context, from string) string {
	if from != "" || c.kube == nil {
		return ""
	}
	j, err := journal.Open(ctx, c.kube)
	if err != nil {
		return ""
	}
	switch doc := j.Doc(); doc.Phase {
	case v1.RunApplying:
		return fmt.Sprintf("\nmigration %s was begun and is not finished: go on with transplant apply, or back with transplant rollback", doc.Run)
	case v1.RunRollingBack:
		return fmt.Sprintf("\nthe rollback of migration %s was begun and is not finished: go on with transplant rollback", doc.Run)
	case v1.RunApplied:
		return fmt.Sprintf("\nmigration %s is applied: look at it with transplant verify, or go back with transplant rollback", doc.Run)
	}
	return ""
}

// now is the time that is written into plans and reports.
var now = time.Now

func readPlan(path string) (*v1.Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if err := aPlan(path, data); err != nil {
		return nil, err
	}
	var p v1.Plan
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		return nil, fmt.Errorf("plan %s cannot be read as one of this version of transplant; use the version that wrote it, or undo what was edited: %w", path, err)
	}
	if p.Direction != planstep.Forward {
		return nil, fmt.Errorf("plan %s is a %s: apply carries out migrations, rollback makes its own plan", path, p.Direction)
	}
	if err := invariant.CheckWellFormed(&p); err != nil {
		return nil, fmt.Errorf("plan %s cannot be carried out; make it anew with transplant plan --refresh, or undo what was edited:\n%w", path, err)
	}
	return &p, nil
}

// aPlan says why a file is no plan of this version. What it is comes first: of another kind, or of a later version, no field would be known.
func aPlan(path string, data []byte) error {
	var whatever any
	if err := yaml.Unmarshal(data, &whatever); err != nil {
		return fmt.Errorf("reading the plan: %s is no YAML or JSON: %w; transplant plan --out writes one", path, err)
	}
	var head struct {
		v1.TypeMeta `json:",inline"`
		ToolVersion string `json:"toolVersion"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("reading the plan: %s is no plan, but a list or a text; transplant plan --out writes one", path)
	}
	switch {
	case head.Kind == "":
		return fmt.Errorf("reading the plan: %s is no plan, it is empty or names no kind; transplant plan --out writes one", path)
	case head.Kind != v1.KindPlan:
		return fmt.Errorf("reading the plan: %s is a %s, not a %s; transplant plan --out writes one", path, head.Kind, v1.KindPlan)
	case head.APIVersion != v1.GroupVersion:
		return fmt.Errorf("reading the plan: %s is of %q, and this version of transplant reads %s only; use the version that wrote it, or make the plan anew with transplant plan", path, head.APIVersion, v1.GroupVersion)
	}
	if err := (document.Form{Object: "plan " + path, Known: v1.PlanSchema}).Judge(head.Schema, head.ToolVersion); err != nil {
		return fmt.Errorf("reading the plan: %w; or make the plan anew with transplant plan", err)
	}
	return nil
}

// writeYAML writes a document whole or not at all.
func writeYAML(path string, doc any) error {
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return wholefile.Write(path, data, 0o644)
}

func readSnapshot(path string) (*v1.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("snapshot %s: reading the snapshot: it is a directory; name the file that transplant snapshot wrote", path)
	}
	s, err := snapshot.Load(file)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	if s.TakenAt.IsZero() {
		return nil, fmt.Errorf("snapshot %s does not say when it was taken: it was cut off or edited; take it again with transplant snapshot", path)
	}
	return s, nil
}
