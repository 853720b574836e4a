package run

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func resumeApply(ctx context.Context, c *client.Client, j *journal.Journal, o ApplyOptions) error {
	doc := j.Doc()
	if o.File != "" && !holdsPlan(o.File, doc.Plan) {
		return exitcode.With(
			exitcode.Error,
			"migration %s was begun and is not finished: run transplant apply without a plan to go on with it, or transplant rollback",
			doc.Run,
		)
	}
	if err := trust.CheckJournal(doc, nil); err != nil {
		return err
	}
	before, err := journal.Before(ctx, c.Kube)
	if err != nil {
		return err
	}
	c.NameCluster(c.DescribeCluster(ctx, &doc)) // where this command writes, whatever the journal says
	c.Narrate(
		"migration %s was begun %s by %s: its journal says that %d of %d steps are done",
		doc.Run,
		doc.Started.Format(time.RFC3339),
		doc.User,
		stepsDone(&doc.Plan, doc),
		len(doc.Plan.Steps),
	)
	if o.Until == "" {
		o.Until = stepOfCanaries(doc)
	}
	of, err := o.extentOf(c, doc, before)
	if err != nil {
		return err
	}
	if len(of.own) > 0 {
		c.Narrate("does %s and leaves the other nodes for a later run", strings.Join(of.own, ", "))
	}
	if err := o.Pinned.Check(&doc.Plan, "the plan in the journal of migration "+doc.Run); err != nil {
		return err
	}
	stored := doc.Plan // what the journal holds, without options of this run
	// a file of this machine that holds the same plan is an approval
	approved := o.File != "" || c.IsApprovedHere(&stored, doc.Run)
	doc.Plan = *plan.Reworded(&stored, before)
	if err := overrideKubeletOptions(&doc.Plan, o.Kubelets); err != nil {
		return err
	}
	if o.DryRun {
		view := client.PlanView{Answer: true, Results: resultsOf(doc)}
		view.DryRuns = o.TryOnServer(ctx, step.Options{Dynamic: c.Dynamic}, o.stepsNow(doc, of))
		return cmp.Or(c.ShowPlan(&doc.Plan, view), Refused(view.DryRuns))
	}
	if err := seesProcesses(c); err != nil {
		return err
	}
	if err := approveRest(c, o.Options, doc, &stored, approved); err != nil {
		return err
	}
	return withLock(
		ctx,
		c,
		o.Options,
		func(ctx context.Context) error {
			return resumeLocked(ctx, c, o, of, before, reviewed{stored: &stored, shown: &doc.Plan})
		},
	)
}

// stepsNow are the steps that this run would execute.
func (o *ApplyOptions) stepsNow(doc v1.Journal, of extent) []v1.Step {
	part := doc.Plan
	part.Steps = doc.Plan.Steps[:of.steps]
	return slices.DeleteFunc(StepsLeft(&part, doc), func(s v1.Step) bool { return of.later[s.ID] })
}

// approveRest asks whether to continue the stored plan of a journal. It shows a plan that was not approved on this
// machine.
func approveRest(c *client.Client, f Options, doc v1.Journal, stored *v1.Plan, approved bool) error {
	if !approved {
		if err := ReviewUnseen(c, doc); err != nil {
			return err
		}
		if err := f.CheckEnv(JournalUnseen, stored); err != nil {
			return err
		}
	}
	if err := f.Pinned.CheckApproved(f.Yes, approved, stored, "transplant apply --dry-run"); err != nil {
		return err
	}
	cluster := doc.Plan.Cluster
	cluster.Context, cluster.Server = c.Context, c.Config.Host // where this command writes, whatever the journal says
	// It was typed when the plan was approved.
	word := ""
	if !c.IsApprovedHere(stored, doc.Run) {
		word = wordFor(stored, cluster)
	}
	return c.Approve(client.Question{Yes: f.Yes, What: resumeQuestion(cluster, f), Word: word})
}

func resumeQuestion(cluster v1.Cluster, f Options) string {
	where := client.NameForApproval(cluster)
	question := "go on with it on " + where
	if len(f.Nodes) > 0 {
		question = "change " + strings.Join(f.Nodes, ", ") + " and no other node on " + where
	}
	if len(f.Without) > 0 {
		question += ", without " + strings.Join(f.Without, ", ") + " for good"
	}
	return question
}

// extentOf is how much of a journal's plan this run executes, by what its records say is done. The engine asks the
// cluster whether that is so. A step before the named nodes' own that does not show is done again, in its order.
func (o *ApplyOptions) extentOf(c *client.Client, doc v1.Journal, before *v1.Snapshot) (extent, error) {
	if len(o.Nodes) == 0 {
		n, err := StepsUntil(c, &doc.Plan, o.Until)
		return extent{steps: n}, err
	}
	var named []planstep.NamedNode
	for _, name := range o.Nodes {
		n, err := workerNamed(&doc, before, name)
		if err != nil {
			return extent{}, err
		}
		named = append(named, n)
	}
	part, err := planstep.ForNodes(&doc.Plan, doc.Records, named)
	if err != nil {
		return extent{}, exitcode.With(exitcode.Error, "%w", err)
	}
	if slices.Contains(part.Steps, o.Until) { // the plan wants a pause after the first workers
		part.Until = o.Until
	}
	n, err := planstep.Until(&doc.Plan, part.Until)
	return extent{
		steps: n,
		later: part.Later,
		nodes: o.Nodes,
		own:   part.Steps,
	}, err
}

// checkNodes refuses names that a run cannot be limited to, before a host is reached.
func (o *ApplyOptions) checkNodes(ctx context.Context, c *client.Client, doc v1.Journal) error {
	if len(o.Nodes) == 0 {
		return nil
	}
	before, err := journal.Before(ctx, c.Kube)
	if err != nil {
		return err
	}
	_, err = o.extentOf(c, doc, before)
	return err
}

// workerNamed is the worker of a plan that has a name, its host's or its Node's.
func workerNamed(doc *v1.Journal, before *v1.Snapshot, name string) (planstep.NamedNode, error) {
	n := planstep.NamedNode{Host: name, Node: name}
	isPlane := planstep.HasControlPlane(&doc.Plan, name)
	for _, h := range before.Hosts {
		if h.Name == name || h.NodeName == name {
			n = planstep.NamedNode{Host: h.Name, Node: cmp.Or(h.NodeName, h.Name)}
			isPlane = isPlane || h.ControlPlane || planstep.HasControlPlane(&doc.Plan, h.Name)
		}
	}
	switch workers := planstep.Workers(&doc.Plan); {
	case isPlane:
		return n, exitcode.With(
			exitcode.Error,
			"--node %s: this host is of the control plane, which changes in the order of the plan; transplant apply --until stops after any of its steps",
			name,
		)
	case slices.ContainsFunc(doc.Without, func(h v1.HostOut) bool { return h.Name == n.Host }):
		return n, exitcode.With(
			exitcode.Error,
			"--node %s: the host was excluded from the migration: its steps are skipped",
			name,
		)
	case !slices.Contains(workers, n.Host) && !hasNodeStep(&doc.Plan, n.Node):
		return n, &planstep.UnknownNodeError{Name: name, Workers: workers}
	}
	return n, nil
}

// hasNodeStep reports whether a plan gives a Node its providerID.
func hasNodeStep(p *v1.Plan, node string) bool {
	return slices.ContainsFunc(p.Steps, func(s v1.Step) bool {
		return s.Kind == v1.StepInitializeNode && s.Ref == "Node/"+node
	})
}

// reviewed is a plan that stood in a journal when its run was asked about, and how it was shown.
type reviewed struct{ stored, shown *v1.Plan }

// reworded is the plan of a journal with the words of the plan that is made again. It is not made a second time where
// the journal has not changed since.
func (r reviewed) reworded(p *v1.Plan, before *v1.Snapshot) *v1.Plan {
	if reflect.DeepEqual(p, r.stored) {
		return r.shown
	}
	return plan.Reworded(p, before)
}

// resumeLocked continues the first n steps of the journal as it is under the lock. Another command may have continued
// it before the lock was free. Its plan has to be the one that was approved before.
func resumeLocked(
	ctx context.Context,
	c *client.Client,
	o ApplyOptions,
	of extent,
	before *v1.Snapshot,
	seen reviewed,
) error {
	f := o.Options
	j, err := journal.Open(ctx, c.Kube)
	if err != nil {
		return err
	}
	doc := j.Doc()
	if doc.Phase != v1.RunApplying {
		return exitcode.With(exitcode.Error, "migration %s is %s by now", doc.Run, doc.Phase)
	}
	if err := f.Pinned.Check(&doc.Plan, "the plan in the journal of migration "+doc.Run); err != nil {
		return err
	}
	if client.ApprovalOf(&doc.Plan) != client.ApprovalOf(seen.stored) {
		return exitcode.With(
			exitcode.Stale,
			"the plan in the journal of migration %s is another one than the one that was approved just now: nothing was changed; run the same command again and look at it",
			doc.Run,
		)
	}
	if err := c.NoteApproval(&doc.Plan, doc.Run); err != nil {
		return err
	}
	if err := excludeHosts(ctx, c, j, f, before); err != nil {
		return err
	}
	p := seen.reworded(&doc.Plan, before)
	for _, plan := range []*v1.Plan{p, &doc.Plan} {
		if err := overrideKubeletOptions(plan, f.Kubelets); err != nil {
			return err
		}
	}
	live := c.Gather(ctx, p.Options)
	if err := checkHosts(live); err != nil {
		return err
	}
	if err := trust.CheckJournal(doc, live); err != nil {
		return err
	}
	if len(o.Nodes) > 0 {
		if of, err = o.extentOf(c, j.Doc(), before); err != nil {
			return err
		}
	}
	return execute(ctx, c, j, p, of, before, live, f)
}

// ReviewUnseen prints the whole of a plan that was not approved on this machine. It comes from the cluster, where
// others may have written it, and its records with it. A record that says "done" hides no step: the engine asks the
// cluster.
func ReviewUnseen(c *client.Client, doc v1.Journal) error {
	c.Narrate(
		"its plan was not approved on this machine (sha256 %s); all of it, with what the journal says is done:",
		compare.Digest(&doc.Plan),
	)
	return c.ShowUnseen(&doc.Plan, resultsOf(doc))
}

// stepOfCanaries is the step behind which an apply that goes on stops, where the plan wants a pause. It is that of the
// last canary that is left to do. One whose host is excluded is never done, and would stop every run.
func stepOfCanaries(doc v1.Journal) string {
	if !doc.Plan.Options.PauseAfterCanary {
		return ""
	}
	rest := remainingPlan(&doc.Plan, doc)
	return planstep.LastCanary(&rest)
}

// overrideKubeletOptions replaces the options of a started migration with those of this run. A node that died since
// must not end it for good.
func overrideKubeletOptions(p *v1.Plan, given v1.Options) error {
	o := &p.Options
	if given.MaxUnavailable != "" {
		o.MaxUnavailable = given.MaxUnavailable
	}
	if given.DrainTimeout != "" {
		o.DrainTimeout = given.DrainTimeout
	}
	if given.Soak != "" {
		o.Soak = given.Soak
	}
	o.ForceUnmanaged = o.ForceUnmanaged || given.ForceUnmanaged
	if err := options.Validate(*o); err != nil {
		return fmt.Errorf("these options cannot be used: %w", err)
	}
	return nil
}

// CheckEnv refuses variables of a plan that may decide where the cloud's credentials go, unless this command names them
// itself or pins the plan. An account that may write the plan could have them sent to itself. Unseen says where the
// plan is, and why no person has looked at it.
func (f *Options) CheckEnv(unseen string, p *v1.Plan) error {
	names := plan.RiskyEnv(p.Options)
	if len(names) == 0 || f.EnvGiven || f.Pinned.Sha256 != "" {
		return nil
	}
	var again []string
	for _, e := range p.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		again = append(again, fmt.Sprintf("--ccm-env='%s=%s'", name, mask.Text(mask.Named(name, value))))
	}
	return exitcode.With(exitcode.NotApproved, "%s, and gives the cloud-controller-manager %s, "+
		"which may decide where the cloud's credentials go: nothing was changed; find out whether that is meant, and name the variables yourself (%s), or give --plan-sha256 %s",
		unseen, wording.OneLine(strings.Join(names, ", ")), wording.OneLine(strings.Join(again, " ")), compare.Digest(p))
}

// checkFileTrust refuses a plan of a file whose options could give away the cloud's credentials, or root on each node.
// Those are variables, the image of the manager, and the program of an image credential provider. The steps are made
// again and compared, and the options are not.
func (o *ApplyOptions) checkFileTrust(p *v1.Plan) error {
	if !o.Yes || o.File == "" {
		return nil // a person looks at the review, or the plan was made now
	}
	unseen := "with --yes no operator reads plan " + o.File + ", which others may have written"
	if err := o.CheckEnv(unseen, p); err != nil {
		return err
	}
	if program := p.Options.CredentialProvider; program != "" && !o.ProviderGiven && o.Pinned.Sha256 == "" {
		return exitcode.With(exitcode.NotApproved, "%s, and has the kubelets run %s of this machine (SHA-256 %s) as root: "+
			"nothing was changed; find out whether that is meant, and name the program yourself (--credential-provider=%s), "+
			"or give --plan-sha256 %s",
			unseen, wording.OneLine(program), wording.OneLine(p.Options.CredentialProviderSHA256), wording.OneLine(program),
			compare.Digest(p))
	}
	image := p.Options.Image
	if isKnownImage(image) || o.ImageGiven || o.Pinned.Sha256 != "" {
		return nil
	}
	return exitcode.With(exitcode.NotApproved, "%s, and starts the image %s, which is neither this project's nor the provider's official one: "+
		"nothing was changed; find out whether that is meant, and name it yourself (--image=%s), or give --plan-sha256 %s",
		unseen, wording.OneLine(image), wording.OneLine(image), compare.Digest(p))
}

// hasRiskyOptions reports whether a plan's options could give away the cloud's credentials, or root on each node. Of
// such a plan in a file a person reads each step.
func hasRiskyOptions(p *v1.Plan) bool {
	return len(plan.RiskyEnv(p.Options)) > 0 || p.Options.CredentialProvider != "" || !isKnownImage(p.Options.Image)
}

// isKnownImage reports whether an image is this project's, or the provider's official one.
func isKnownImage(image string) bool {
	_, isOfficial := cloudprovider.ImageOf(image)
	return isOfficial || proven.IsPublished(image)
}

// checkApproved says why a plan that is well formed is not begun: it is not trusted, or its effect would not be seen.
func (o *ApplyOptions) checkApproved(c *client.Client, p *v1.Plan) error {
	if err := o.checkFileTrust(p); err != nil {
		return err
	}
	return seesProcesses(c)
}

// JournalUnseen says why a journal's plan is asked about its variables.
const JournalUnseen = "the plan in the journal was not approved on this machine"

// holdsPlan reports whether a file holds the plan that a migration was begun with, wherever it says to stop: the
// journal keeps the whole. What the two accept may differ. The apply that started it may have accepted more, and no
// check runs when it is continued.
func holdsPlan(path string, begun v1.Plan) bool {
	p, err := client.ReadPlan(path)
	if err != nil {
		return false // it is of no use here, whatever is wrong with it
	}
	p.Findings = begun.Findings
	return compare.Digest(p) == compare.Digest(&begun)
}
