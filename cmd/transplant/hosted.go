package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/cloudconfig"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// seedFlags say that the control plane of the cluster runs in another one, and where.
type seedFlags struct {
	kubeconfig, context, namespace, part string
	direct                               bool
}

func (f *seedFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.namespace, "seed-namespace", "", "the control plane runs as Deployments in this namespace of another cluster, the seed; the cluster itself is reached by --kubeconfig, or by the Secret "+kubeconfig.SecretName+" there")
	fl.StringVar(&f.kubeconfig, "seed-kubeconfig", "", "path of the seed's kubeconfig (default: $KUBECONFIG, then ~/.kube/config)")
	fl.StringVar(&f.context, "seed-context", "", "context of the seed's kubeconfig")
	fl.BoolVar(&f.direct, "seed-direct", false, "the addresses of the seed's pods are reached from here; else the managers are asked through the seed's API server (pods/portforward)")
	if cmd.Name() != "rollback" && cmd.Name() != "renew" {
		fl.StringVar(&f.part, "part", string(hosted.Handover), "part of a hosted migration: handover, or finish when no machine needs the in-tree provider any longer")
		complete(cmd, "part", cobra.FixedCompletions([]string{string(hosted.Handover), string(hosted.Finish)}, cobra.ShellCompDirectiveNoFileComp))
	}
}

// hostedToo lets a command work on a control plane in a seed, when its flags say that there is one.
func (c *connection) hostedToo(cmd *cobra.Command, do func(ctx context.Context, h *hostedRun) error) *cobra.Command {
	var f seedFlags
	f.flags(cmd)
	own := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.namespace == "" {
			if given := flagsGiven(cmd, seedOnly...); len(given) > 0 {
				return fmt.Errorf("%s needs --seed-namespace, the namespace of the cluster's control plane in the seed", strings.Join(given, ", "))
			}
			return own(cmd, args)
		}
		if err := checkHostedFlags(cmd); err != nil {
			return err
		}
		if len(args) > 0 {
			return errors.New("a plan of a hosted control plane is made when it is carried out: leave the file out")
		}
		h := &hostedRun{connection: c, cmd: cmd, part: hosted.Part(f.part)}
		if h.part == "" {
			h.part = hosted.Handover
		}
		if h.part != hosted.Handover && h.part != hosted.Finish {
			return fmt.Errorf("--part %q: the parts are %s and %s", f.part, hosted.Handover, hosted.Finish)
		}
		var err error
		if h.plane, err = c.hostedPlane(cmd, f); err != nil {
			return err
		}
		return do(cmd.Context(), h)
	}
	return cmd
}

// hostedRun is one command on a hosted control plane.
type hostedRun struct {
	*connection
	cmd   *cobra.Command
	plane *hosted.Plane
	part  hosted.Part
}

// hostedPlane connects to both clusters.
func (c *connection) hostedPlane(cmd *cobra.Command, f seedFlags) (*hosted.Plane, error) {
	seedConfig, err := configOf(f.kubeconfig, f.context)
	if err != nil {
		return nil, fmt.Errorf("reading the seed's kubeconfig: %w\nname one with --seed-kubeconfig, and a context in it with --seed-context", err)
	}
	seed, err := clientsOf(seedConfig)
	if err != nil {
		return nil, fmt.Errorf("using the seed's kubeconfig: %w", err)
	}
	userConfig, err := c.userConfig(cmd.Context(), f, seed)
	if err != nil {
		return nil, err
	}
	userclusters.BoundConfig(userConfig)
	user, err := clientsOf(userConfig)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig of the cluster in namespace %s: %w", f.namespace, err)
	}
	dial := portForward(seedConfig, seed.Kube, f.namespace)
	if f.direct {
		dial = nil
	}
	o, accept := hostedOptions(cmd)
	return &hosted.Plane{
		Name: strings.TrimPrefix(f.namespace, "cluster-"), Namespace: f.namespace, Seed: seed, User: user, Scrape: hosted.NewScraperThrough(user, dial), Options: o, Accept: accept,
		Holder: lock.Holder(userName()), StealLock: boolFlag(cmd, "steal-lock"), ToolVersion: version, Clock: testClock(), Hook: testHook,
		Tell: func(s string) { c.narrate("%s", s) }, Pinned: strings.ToLower(strings.TrimSpace(stringFlag(cmd, "plan-sha256"))),
	}, nil
}

func configOf(path, name string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	return tuned(cfg), err
}

func tuned(cfg *rest.Config) *rest.Config {
	if cfg != nil {
		cfg.UserAgent, cfg.QPS, cfg.Burst, cfg.Timeout = "transplant/"+version, 50, 100, 15*time.Second
	}
	return cfg
}

func clientsOf(cfg *rest.Config) (hosted.Clients, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return hosted.Clients{}, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	return hosted.Clients{Kube: kube, Dynamic: dyn}, err
}

// userConfig is how the hosted cluster is reached: as --kubeconfig and --context say, where one of them is given, else as the seed says.
func (c *connection) userConfig(ctx context.Context, f seedFlags, seed hosted.Clients) (*rest.Config, error) {
	if c.kubeconfig != "" || c.context != "" {
		cfg, err := configOf(c.kubeconfig, c.context)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		return cfg, nil
	}
	s, err := seed.Kube.CoreV1().Secrets(f.namespace).Get(ctx, kubeconfig.SecretName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s of the seed, by which the cluster is reached: %w\nname its kubeconfig with --kubeconfig", f.namespace, kubeconfig.SecretName, err)
	}
	cfg, err := kubeconfig.ReadSecret(s)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster as the seed says: %w\nor name a kubeconfig of your own with --kubeconfig", err)
	}
	return tuned(cfg), nil
}

// hostedOptions are those flags of a plan that mean something for a control plane in a seed.
func hostedOptions(cmd *cobra.Command) (v1.Options, map[string]string) {
	text := func(name string) string {
		v, err := cmd.Flags().GetString(name)
		if err != nil {
			return "" // the command has no such flag
		}
		return v
	}
	list := func(name string) []string {
		v, err := cmd.Flags().GetStringArray(name)
		if err != nil {
			return nil
		}
		return v
	}
	accept := map[string]string{}
	for _, a := range list("accept") {
		code, reason, _ := strings.Cut(a, "=")
		accept[code] = reason
	}
	return v1.Options{Strategy: text("strategy"), Image: text("image"), Env: list("ccm-env"), LeaseName: text("lease-name"), ClusterName: text("cluster-name")}, accept
}

func stringFlag(cmd *cobra.Command, name string) string {
	v, err := cmd.Flags().GetString(name)
	if err != nil {
		return ""
	}
	return v
}

func boolFlag(cmd *cobra.Command, name string) bool {
	v, err := cmd.Flags().GetBool(name)
	return err == nil && v
}

func (h *hostedRun) output() *format {
	if f := h.cmd.Flags().Lookup("output"); f != nil {
		if out, ok := f.Value.(*format); ok {
			return out
		}
	}
	return &format{value: "text"}
}

// hostedCheck judges a hosted control plane.
func hostedCheck(ctx context.Context, h *hostedRun) error {
	snap := h.plane.Gather(ctx)
	h.header(snap.Cluster)
	report := h.plane.CheckPart(snap, h.part)
	shown := showing{problems: boolFlag(h.cmd, "problems"), strict: boolFlag(h.cmd, "strict")}
	if shown.strict {
		check.Strict(&report, facts.Options{Accept: h.plane.Accept, AcceptedBy: userName(), AcceptedAt: now().UTC()})
	}
	if err := h.printReport(h.output(), report, shown); err != nil {
		return err
	}
	if report.Summary.Blocked {
		return withCode(exitBlocked, "")
	}
	return nil
}

// hostedPlanned prints the plan of a part.
func hostedPlanned(ctx context.Context, h *hostedRun) error {
	p, err := h.planned(ctx)
	if err != nil {
		return err
	}
	return h.output().print(h.out, p, map[string]func() error{
		"text": func() error { return printPlan(h.out, p, h.layoutFor(h.out, false)) }, "wide": func() error { return printPlan(h.out, p, h.layoutFor(h.out, true)) },
		"markdown": func() error { return errors.New("a plan of a hosted control plane is printed as text, json or yaml") },
	})
}

func (h *hostedRun) planned(ctx context.Context) (*v1.Plan, error) {
	snap := h.plane.Gather(ctx)
	h.header(snap.Cluster)
	p, err := h.plane.Plan(snap, h.part)
	return p, h.refused(err)
}

// refused shows the findings that refuse.
func (h *hostedRun) refused(err error) error {
	var blocked *hosted.BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	return h.blockedBy(blocked.Report)
}

// hostedApply carries a part out, or goes on with it.
func hostedApply(ctx context.Context, h *hostedRun) error {
	s, err := h.plane.Status(ctx, h.part)
	if err != nil {
		return err
	}
	yes, dryRun := boolFlag(h.cmd, "yes"), boolFlag(h.cmd, "dry-run")
	var p *v1.Plan
	question := "go on with the " + string(h.part) + " of the control plane in namespace " + h.plane.Namespace
	switch s.Phase {
	case v1.RunApplied:
		h.narrate("migration %s is applied: nothing to do", s.Run)
		return nil
	case v1.RunApplying:
		h.narrate("migration %s was begun %s: %d of %d steps are done", s.Run, s.Started.Format(time.RFC3339), s.StepsDone, s.StepsTotal)
		doc, err := h.plane.Journal(ctx, h.part)
		if err != nil {
			return err
		}
		p = &doc.Plan
		approved := h.isApprovedHere(p, h.approval(h.part))
		if dryRun {
			return printPlan(h.out, p, h.layoutFor(h.out, false))
		}
		if !approved {
			if err := h.reviewUnseen(doc); err != nil {
				return err
			}
		}
		if err := h.pin().checkApproved(yes, approved, p, "transplant apply --dry-run"+h.where(h.part)); err != nil {
			return err
		}
	default:
		if p, err = h.planned(ctx); err != nil {
			return err
		}
		if err := printPlan(h.err, p, h.layoutFor(h.err, false)); err != nil {
			return err
		}
		question = fmt.Sprintf("carry out these %s on the control plane in namespace %s", count(len(p.Steps), "step"), h.plane.Namespace)
	}
	if dryRun {
		return nil
	}
	if err := h.approve(yes, question); err != nil {
		return err
	}
	if s.Phase == v1.RunApplying {
		if err := h.noteApproval(p, h.approval(h.part)); err != nil {
			return err
		}
	}
	h.plane.Ledger = approvals{h}
	return h.carryOut(ctx, func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
		return h.plane.Run(ctx, h.part, tell, stop)
	})
}

// reviewUnseen prints what is left of a plan that was not approved on this machine, and asks about the variables in it.
func (h *hostedRun) reviewUnseen(doc v1.Journal) error {
	if err := h.reviewRest(doc); err != nil {
		return err
	}
	given := changing{ownEnv: slices.Equal(h.plane.Options.Env, doc.Plan.Options.Env), pinned: h.pin()}
	return given.checkEnv(journalUnseen, &doc.Plan)
}

func hostedRollback(ctx context.Context, h *hostedRun) error {
	s, err := h.plane.Status(ctx, hosted.Handover)
	switch {
	case err != nil:
		return err
	case s.Phase == v1.StateNotStarted:
		return withCode(exitError, "no migration was started on this cluster: there is nothing to roll back")
	case s.Phase == v1.RunRolledBack:
		h.narrate("migration %s is rolled back: nothing to do", s.Run)
		return nil
	}
	p, doc, err := h.plane.PlanRollback(ctx)
	if err != nil {
		return err
	}
	if boolFlag(h.cmd, "dry-run") {
		h.narrate("migration %s is %s: its %s is taken away, and %s gets its cloud loops again", s.Run, s.Phase, component.CCM, component.KCM)
		return printPlan(h.out, p, h.layoutFor(h.out, false))
	}
	approved := h.isBackApproved(&doc, p, h.approval(hosted.Handover))
	if !approved {
		h.narrate("migration %s was not approved on this machine; its rollback:", s.Run)
		if err := printPlan(h.err, p, h.layoutFor(h.err, false)); err != nil {
			return err
		}
	}
	yes := boolFlag(h.cmd, "yes")
	if err := h.pin().checkApproved(yes, approved, p, "transplant rollback --dry-run"+h.where(hosted.Handover)); err != nil {
		return err
	}
	if err := h.approve(yes, fmt.Sprintf("roll migration %s back: its %s is taken away, and %s gets its cloud loops again", s.Run, component.CCM, component.KCM)); err != nil {
		return err
	}
	if err := h.noteApproval(p, rollbackRun(h.approval(hosted.Handover))); err != nil {
		return err
	}
	if h.plane.Pinned == "" {
		h.plane.Pinned = hosted.Sum(p.Steps)
	}
	h.plane.Ledger = looked{&doc.Plan}
	return h.carryOut(ctx, h.plane.Rollback)
}

func (h *hostedRun) pin() pin { return pin{h.plane.Pinned} }

// approval is the name under which the approval of a part is kept.
func (h *hostedRun) approval(part hosted.Part) string {
	return "hosted-" + h.plane.Namespace + "-" + string(part)
}

// where are the flags that name a part of this control plane.
func (h *hostedRun) where(part hosted.Part) string {
	out := " --seed-namespace " + h.plane.Namespace
	if part == hosted.Finish {
		out += " --part finish"
	}
	return out
}

// approvals is the Ledger of the command line: what was approved on this machine. It is asked under the lock, when the journal may be another one than before.
type approvals struct{ *hostedRun }

var _ hosted.Ledger = approvals{}

// Note implements hosted.Ledger.
func (a approvals) Note(_ context.Context, part hosted.Part, p *v1.Plan) error {
	return a.noteApproval(p, a.approval(part))
}

// Check implements hosted.Ledger.
func (a approvals) Check(_ context.Context, part hosted.Part, p *v1.Plan) error {
	if a.isApprovedHere(p, a.approval(part)) {
		return nil
	}
	return &hosted.UnknownPlanError{SHA256: hosted.Sum(p.Steps), Why: "it is another one than the one that was approved; run the same command again and look at it"}
}

// NoteBack implements hosted.Ledger: apply takes nothing back.
func (a approvals) NoteBack(context.Context, *v1.Plan) error { return nil }

// HasBack implements hosted.Ledger.
func (a approvals) HasBack(context.Context, *v1.Plan) (bool, error) { return false, nil }

// Forget implements hosted.Ledger: an approval is of one plan, and ends with the next one.
func (a approvals) Forget(context.Context, hosted.Part) error { return nil }

// looked is the Ledger of a rollback of the command line: the plan that was in the journal when its rollback was looked at, and no other.
type looked struct{ plan *v1.Plan }

var _ hosted.Ledger = looked{}

// Note implements hosted.Ledger: a rollback begins no plan.
func (looked) Note(context.Context, hosted.Part, *v1.Plan) error { return nil }

// Check implements hosted.Ledger.
func (l looked) Check(_ context.Context, _ hosted.Part, p *v1.Plan) error {
	if compare.Seal(p) == compare.Seal(l.plan) {
		return nil
	}
	return &hosted.UnknownPlanError{SHA256: hosted.Sum(p.Steps), Why: "it is another one than a moment ago; run the same command again and look at its rollback"}
}

// NoteBack implements hosted.Ledger: a person approves of each rollback.
func (looked) NoteBack(context.Context, *v1.Plan) error { return nil }

// HasBack implements hosted.Ledger: the rollback that was looked at is of one plan.
func (l looked) HasBack(_ context.Context, p *v1.Plan) (bool, error) {
	return compare.Seal(p) == compare.Seal(l.plan), nil
}

// Forget implements hosted.Ledger.
func (looked) Forget(context.Context, hosted.Part) error { return nil }

// carryOut runs something that may be interrupted, and tells what happens.
func (h *hostedRun) carryOut(ctx context.Context, do func(context.Context, func(step.Event), <-chan struct{}) error) error {
	hard, stop, done := signals(ctx, h.connection)
	defer done()
	defer signal.Reset(syscall.SIGPIPE)
	heart := heart{said: map[string]time.Time{}}
	started := now()
	err := do(hard, func(e step.Event) {
		if heart.worth(e) {
			h.tell(e)
		}
	}, stop)
	if err != nil {
		h.narrate("stopped. What was done stays; the same command goes on")
		return h.refused(err)
	}
	h.narrate("done in %s", now().Sub(started).Round(time.Second))
	return nil
}

// hostedStatus says how a part stands and who runs the loops.
func hostedStatus(ctx context.Context, h *hostedRun) error {
	s, err := h.plane.Status(ctx, h.part)
	if err != nil {
		return err
	}
	owners, err := h.plane.Owners(ctx)
	if err != nil {
		s.NotRead = append(s.NotRead, mask.Error(err))
	}
	s.Owners, s.OwnersFrom = map[string]string{}, map[string]string{}
	for loop, o := range owners.Loops {
		if o.Component != "" {
			s.Owners[loop], s.OwnersFrom[loop] = o.Component+"@"+o.Pod, "gauges"
		}
		for _, also := range o.Also {
			s.Health = append(s.Health, v1.Blocker{Level: "error", Impact: "two owners", Message: fmt.Sprintf("loop %s also runs in %s", loop, also)})
		}
	}
	s.NotRead = append(s.NotRead, owners.Unknown...)
	warnOfToken(ctx, h, &s)
	s.Next = hostedNext(h, s)
	h.header(s.Cluster)
	return h.output().print(h.out, s, map[string]func() error{"text": func() error { return printStatus(h.out, s, h.layoutFor(h.out, false), false) }})
}

// warnOfToken says when the manager's token cannot be used or not for long.
func warnOfToken(ctx context.Context, h *hostedRun, s *v1.Status) {
	token, err := h.plane.ManagerToken(ctx)
	if err != nil {
		s.NotRead = append(s.NotRead, mask.Error(err))
	}
	if token == nil {
		return
	}
	if why := cloudconfig.TokenProblem(token, s.Time); why != "" {
		s.Health = append(s.Health, v1.Blocker{
			Level: "warning", Impact: findings.ImpactNoLoops,
			Message: "transplant renew --seed-namespace " + h.plane.Namespace + ": " + token.Path + " of the seed" + why,
		})
	}
}

// hostedNext is the command that comes next.
func hostedNext(h *hostedRun, s v1.Status) string {
	at := " --seed-namespace " + h.plane.Namespace
	switch {
	case s.Untrusted != "":
		return "find out who wrote the journal's ConfigMap in namespace " + h.plane.Namespace + " of the seed"
	case s.Phase == v1.RunRollingBack:
		return "transplant rollback" + at
	case s.Phase == v1.RunApplied && h.part == hosted.Handover:
		return "transplant apply --part finish" + at + ", when the machines are done"
	case s.Phase == v1.RunApplied:
		return ""
	}
	return "transplant apply --part " + string(h.part) + at
}

// dialer connects to a port of a pod.
type dialer = func(ctx context.Context, pod, address string) (net.Conn, error)
