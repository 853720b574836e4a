// Package client does what commands are about, as a library. It connects to a cluster and its hosts, gathers, asks
// managers, and keeps what belongs to this machine. It prints nothing; who is talked to is a Console.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/bundle"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/status"
)

// Console is who is told what happens, is shown plans, and decides.
type Console interface {
	// Narrate says what happens, in a line or more.
	Narrate(format string, args ...any)
	// Approve asks for consent.
	Approve(q Question) error
	// ShowPlan shows a plan before it is executed, or as the answer of the command.
	ShowPlan(p *v1.Plan, how PlanView) error
	// ShowUnseen shows all of a journal's plan that was not approved here, with the results that its records claim.
	ShowUnseen(p *v1.Plan, results map[string]v1.StepResult) error
	// ShowReport shows findings that block.
	ShowReport(report v1.CheckReport) error
	// Tell says what happens to a step.
	Tell(e step.Event)
	// Interruptible returns a context that ends when the command is to stop at once. It also returns a channel that is
	// closed when the command is to stop after the current step.
	Interruptible(ctx context.Context) (hard context.Context, stopping <-chan struct{}, done func())
	// ShowWait shows what a command waits for, as describe says it now and then, until stop is called.
	ShowWait(describe func() string) (stop func())
	// Instructions returns where a person is told what to change by hand, and whether no person reads it.
	Instructions() (w io.Writer, unattended bool)
}

// Question asks for consent to a change.
type Question struct {
	// Yes is consent that was given before: nothing is asked.
	Yes bool
	// What is done, as a clause.
	What string
	// Word is what an operator types to agree; empty for "yes". What no rollback takes back wants the cluster's name,
	// which is not typed by habit.
	Word string
}

// WordFor is what has to be typed before something that no rollback takes back is done to a cluster. A name that every
// cluster has by default tells none from another.
func WordFor(cl v1.Cluster) string {
	name := cl.Name
	if name == clusterview.DefaultClusterName {
		name = ""
	}
	return cmp.Or(name, cl.Context, cl.UID)
}

// PlanView says how a plan is shown.
type PlanView struct {
	// Answer is set where the plan is the command's answer, and nothing is executed.
	Answer bool
	// Made is set for a plan that this command has made of the cluster, if only to find a file's plan the same. Steps
	// that prepare it, and those of workers that change the same, may be shown in one line. Of a journal's plan, which
	// others may have written, each step is shown.
	Made bool
	// Results are what a journal's records claim of the steps, to be shown next to them; nil of a plan that was not begun.
	Results map[string]v1.StepResult
	// DryRuns are what the API server says of the objects that the steps write; nil where it was not asked.
	DryRuns []v1.DryRun
}

// Client is what the global flags say, and what was opened from them.
type Client struct {
	Console
	Kubeconfig, Context, StateDir string
	// Chosen are the entries of the kubeconfig that count; its context is Context.
	Chosen Choice
	// TellsRequests has every request to the API be narrated.
	TellsRequests bool
	// Guess is the context that is used where no flag names one, of a kubeconfig that has several; nil before Connect.
	Guess *ContextGuess
	Host  HostOptions
	// Clouds are what --cloud says, and through which program a cloud is asked.
	Clouds cloudprogram.Programs

	Config  *rest.Config
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Hosts   []hostaccess.Host
	// Pods reports whether hosts are reached through pods, which takes rights of its own, and that they are Nodes.
	Pods    bool
	Session hostSession
	inv     inventory.Source
	Proof   ProofOptions
	Probes  ProbeOptions
	// NoSecrets has no client read a Secret.
	NoSecrets bool
	// Traffic is every request to the API, and what its answers say of the time.
	Traffic collect.Traffic

	// Publish shows how a run goes on the lock while it is held, progress what is shown.
	Publish  func(string)
	Progress *lock.Progress
	// Extend has the lock last longer while it is held.
	Extend func(context.Context, time.Duration) (func(), error)

	mu       sync.Mutex
	token    string
	tokenEnd time.Time
}

// ContextGuess is a current context that counts since no flag names one. Of is how many contexts there are.
type ContextGuess struct {
	Flag, Current string
	Of            int
}

// Choice is which entries of a kubeconfig count, and as whom requests are made; empty for what the kubeconfig says.
type Choice struct {
	// Cluster and User replace those of the context.
	Context, Cluster, User string
	// As is the user that every request impersonates, AsGroups that user's groups.
	As       string
	AsGroups []string
}

// GuessOf is the guess that a kubeconfig leaves; nil where its flag was given, or it has no choice.
func GuessOf(flag, given string, read Kubeconfig) *ContextGuess {
	if given != "" || len(read.Contexts) < 2 {
		return nil
	}
	return &ContextGuess{Flag: flag, Current: read.Current, Of: len(read.Contexts)}
}

// Kubeconfig is what a kubeconfig says of clusters.
type Kubeconfig struct {
	// Config is how the chosen context's cluster is reached.
	Config *rest.Config
	// Current is the context that counts where none is named.
	Current string
	// Contexts, Clusters and Users are the names of all of them, sorted.
	Contexts, Clusters, Users []string
}

// ReadKubeconfig reads the kubeconfig in a file, or where the path is empty that which kubectl reads. Its names are
// known also where the chosen entries cannot be used, which is an error.
func ReadKubeconfig(path string, chosen Choice) (Kubeconfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: chosen.Context,
		Context:        clientcmdapi.Context{Cluster: chosen.Cluster, AuthInfo: chosen.User},
	})
	var out Kubeconfig
	if raw, err := loader.RawConfig(); err == nil {
		out.Current, out.Contexts = raw.CurrentContext, slices.Sorted(maps.Keys(raw.Contexts))
		out.Clusters, out.Users = slices.Sorted(maps.Keys(raw.Clusters)), slices.Sorted(maps.Keys(raw.AuthInfos))
	}
	var err error
	out.Config, err = loader.ClientConfig()
	if err == nil && chosen.As != "" { // a pod has no kubeconfig, and its own account may have more rights
		out.Config.Impersonate = rest.ImpersonationConfig{UserName: chosen.As, Groups: chosen.AsGroups}
	}
	return out, err
}

// Connect connects to the cluster's API, and to nothing else.
func (c *Client) Connect() error {
	if len(c.Chosen.AsGroups) > 0 && c.Chosen.As == "" {
		return errors.New("--as-group needs --as: a group is impersonated together with a user")
	}
	c.Chosen.Context = c.Context
	read, err := ReadKubeconfig(c.Kubeconfig, c.Chosen)
	if clientcmd.IsEmptyConfig(err) { // client-go advises a variable that kubectl has not read for years
		err = errors.New("none was found: $KUBECONFIG and ~/.kube/config name no cluster, and this is no pod")
	}
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w\nname one with --kubeconfig, and a context in it with --context", err)
	}
	c.Guess = GuessOf("context", cmp.Or(c.Context, c.Chosen.Cluster), read)
	c.Context = cmp.Or(c.Context, read.Current)
	cfg := read.Config
	cfg.UserAgent = "transplant/" + Version
	cfg.QPS, cfg.Burst = 50, 100
	cfg.Timeout = 15 * time.Second
	answerlimit.Lists(cfg)
	if c.NoSecrets {
		bundle.RefuseSecrets(cfg)
	}
	c.Traffic.Tell = requestTeller(c)
	c.Traffic.Watch(cfg)
	c.Config = cfg
	if c.Kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	if _, err := c.Kube.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf(
			"reaching the API server %s (context %q): %w\nif this is not the cluster that you mean, name another one with --context or --kubeconfig",
			cfg.Host, c.Context, err,
		)
	}
	return nil
}

// requestTeller narrates requests where that is asked for; nil where it is not. Bodies and headers are left out, and
// the words of commands in pods: they may hold secrets.
func requestTeller(c *Client) func(*http.Request, *http.Response, error, time.Duration) {
	if !c.TellsRequests {
		return nil
	}
	return func(req *http.Request, resp *http.Response, err error, took time.Duration) {
		answer := "no answer: " + mask.Error(err)
		if resp != nil {
			answer = resp.Status
		}
		query := req.URL.Query()
		query.Del("command")
		path := req.URL.Path
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		c.Narrate("%s %s: %s in %s", req.Method, path, answer, took.Round(time.Millisecond))
	}
}

// TellRequests has requests of a configuration's clients be narrated where that is asked for.
func TellRequests(c *Client, cfg *rest.Config) {
	if tell := requestTeller(c); tell != nil {
		(&collect.Traffic{Tell: tell}).Watch(cfg)
	}
}

// Open connects to the cluster, the hosts and the cloud.
func (c *Client) Open(ctx context.Context) error {
	if err := c.Clouds.Check(); err != nil { // before an API server is asked, which may take long
		return fmt.Errorf("--cloud: %w", err)
	}
	if err := checkHostAccess(c.Host.Access); err != nil {
		return fmt.Errorf("--host-access: %w", err)
	}
	if err := c.Connect(); err != nil {
		return err
	}
	return c.OpenHostsAndCloud(ctx)
}

// OpenHostsAndCloud connects to the cloud and the hosts, once the cluster's API was reached.
func (c *Client) OpenHostsAndCloud(ctx context.Context) (err error) {
	if c.Clouds.Path != "" && c.Clouds.Cloud == "" {
		return errors.New("--cloud-program would have no effect: it is the program of the cloud that --cloud names")
	}
	if c.Clouds.Cloud != "" {
		if c.inv, err = c.Clouds.Open(ctx); err != nil {
			return fmt.Errorf("--cloud: %w", err)
		}
	}
	return c.openHosts(ctx) // last: what is wrong with the rest is said before a pod is made
}

// NameCluster names the cluster before anything is said about it.
func (c *Client) NameCluster(cl v1.Cluster) {
	c.Narrate(
		"cluster %s (uid %s) · %s · %s · context %s",
		wording.OrDash(cl.Name),
		wording.Short(cl.UID),
		wording.OrDash(cl.Version),
		wording.OrDash(cl.Server),
		wording.OrDash(cl.Context),
	)
}

// NameForApproval names a cluster in a question: who agrees must see that it is the one that is meant.
func NameForApproval(cl v1.Cluster) string {
	return fmt.Sprintf(
		"cluster %s (uid %s, context %s, server %s)",
		wording.OrDash(cl.Name),
		wording.Short(cl.UID),
		wording.OrDash(cl.Context),
		wording.OrDash(mask.Server(cl.Server)),
	)
}

// Now is the time that is written into plans and reports.
var Now = time.Now

// Version is that of the program; its command sets it.
var Version = "v0.1.0-dev"

// DocsURL is the page of a check as this version of the program has it; explain prints the same, offline.
func DocsURL(code string) string {
	ref := Version
	if strings.Contains(ref, "-") { // built between two releases
		ref = "main"
	}
	return "https://github.com/transplant-dev/transplant/blob/" + ref + "/docs/reference/checks.md#" + strings.ToLower(code)
}

// NameDocs writes into each finding that did not pass where its page is.
func NameDocs(findings []v1.Finding) {
	for i, f := range findings {
		if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			findings[i].Docs = DocsURL(f.Code)
		}
	}
}

// PublishedHostImage is the image, by digest, that a release was made with; empty for other builds. The archives are
// compiled after the images: a program inside an image cannot know that image's digest.
var PublishedHostImage string

// DefaultHostImage is the image of the pods of --host-access=pod, which are root on their hosts.
func DefaultHostImage() string {
	return cmp.Or(PublishedHostImage, component.Registry+"/transplant:"+Version)
}

// LockClock waits while a lock is looked at, and while it is held; tests have their own.
var LockClock = fault.Clock()

// UserName returns the name of the user who runs this program.
func UserName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// DescribeCluster names the cluster as far as the API says which it is.
func (c *Client) DescribeCluster(ctx context.Context, doc *v1.Journal) v1.Cluster {
	out := v1.Cluster{Server: mask.Server(c.Config.Host), Context: c.Context}
	if doc != nil {
		out.Name, out.UID, out.Provider = doc.Plan.Cluster.Name, doc.Plan.Cluster.UID, doc.Plan.Cluster.Provider
	}
	if v, err := c.Kube.Discovery().ServerVersion(); err == nil {
		out.Version = v.GitVersion
	}
	if ns, err := c.Kube.CoreV1().Namespaces().Get(ctx, component.Namespace, metav1.GetOptions{}); err == nil {
		out.UID = string(ns.UID)
	}
	return out
}

// ServerTime is the time of the API server.
func (c *Client) ServerTime() time.Time { return Now().Add(c.Traffic.Offset()) }

// NewBoard is what is read of the cluster, and followed.
func (c *Client) NewBoard(ctx context.Context, follow bool) (*status.Board, error) {
	kube := c.Kube
	if follow {
		// The limit of a request's time would end a watch, too.
		cfg := rest.CopyConfig(c.Config)
		cfg.Timeout = 0
		var err error
		if kube, err = kubernetes.NewForConfig(cfg); err != nil {
			return nil, fmt.Errorf("using the kubeconfig: %w", err)
		}
	}
	doc, err := status.ReadJournal(ctx, c.Kube)
	if err != nil {
		doc = nil // the board says why, next to what can be read
	}
	return status.NewBoard(
		status.Options{Kube: kube, Cluster: c.DescribeCluster(ctx, doc), Now: c.ServerTime},
		status.LeaseNames(doc),
	), nil
}
