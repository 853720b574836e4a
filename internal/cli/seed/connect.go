package seed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/bundle"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// seedFlags say that the control plane of the cluster runs in another one, and where.
type seedFlags struct {
	kubeconfig, context, namespace, part string
	direct                               bool
}

func (f *seedFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(
		&f.namespace,
		"seed-namespace",
		"",
		"the control plane runs as Deployments in this namespace of another cluster, the seed; the cluster itself is reached by --kubeconfig, or by the Secret "+kubeconfig.SecretName+" there",
	)
	fl.StringVar(
		&f.kubeconfig,
		"seed-kubeconfig",
		"",
		"path of the seed's kubeconfig (default: $KUBECONFIG, then ~/.kube/config)",
	)
	fl.StringVar(&f.context, "seed-context", "", "context of the seed's kubeconfig")
	fl.BoolVar(
		&f.direct,
		"seed-direct",
		false,
		"the addresses of the seed's pods are reached from here; else the managers are asked through the seed's API server (pods/portforward)",
	)
	if !slices.Contains([]string{"rollback", "renew", "unlock"}, cmd.Name()) {
		fl.StringVar(
			&f.part,
			"part",
			string(hosted.Handover),
			"part of a hosted migration: handover, or finish when no machine needs the in-tree provider any longer",
		)
		console.Complete(
			cmd,
			"part",
			cobra.FixedCompletions([]string{string(hosted.Handover), string(hosted.Finish)}, cobra.ShellCompDirectiveNoFileComp),
		)
	}
}

// reach is how both clusters are reached.
type reach struct {
	seed, user *rest.Config
	// traffic knows the clock of the seed's API server.
	traffic *collect.Traffic
}

// now is the time of the seed's API server.
func (r reach) now() time.Time { return fault.Clock().Now().Add(r.traffic.Offset()) }

// patient is a plane whose requests may last: a limit of a request's time would end a watch, too.
func (r reach) patient(p hosted.Plane) (*hosted.Plane, error) {
	var err error
	for _, of := range []struct {
		cfg  *rest.Config
		into *hosted.Clients
	}{{r.seed, &p.Seed}, {r.user, &p.User}} {
		cfg := rest.CopyConfig(of.cfg)
		cfg.Timeout = 0
		if *of.into, err = clientsOf(cfg); err != nil {
			return nil, fmt.Errorf("using the kubeconfig: %w", err)
		}
	}
	return &p, nil
}

// hostedPlane connects to both clusters.
func hostedPlane(c *console.Console, cmd *cobra.Command, f seedFlags, r *reach) (*hosted.Plane, error) {
	read, err := f.read()
	if err != nil {
		return nil, fmt.Errorf(
			"reading the seed's kubeconfig: %w\nname one with --seed-kubeconfig, and a context in it with --seed-context",
			err,
		)
	}
	c.Guess = client.GuessOf("seed-context", f.context, read)
	if own, err := client.ReadKubeconfig(c.Kubeconfig, c.Chosen); err == nil && c.Kubeconfig != "" {
		c.Guess = cmp.Or(c.Guess, client.GuessOf("context", c.Context, own))
	}
	seedConfig := tuned(read.Config)
	if c.NoSecrets {
		bundle.RefuseSecrets(seedConfig)
	}
	client.TellRequests(c.Client, seedConfig)
	r.seed, r.traffic = seedConfig, &collect.Traffic{}
	r.traffic.Watch(seedConfig)
	seed, err := clientsOf(seedConfig)
	if err != nil {
		return nil, fmt.Errorf("using the seed's kubeconfig: %w", err)
	}
	userConfig, err := userConfig(cmd.Context(), c.Client, f, seed)
	if err != nil {
		return nil, err
	}
	if c.NoSecrets {
		bundle.RefuseSecrets(userConfig)
	}
	client.TellRequests(c.Client, userConfig)
	answerlimit.Config(userConfig)
	r.user = userConfig
	user, err := clientsOf(userConfig)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig of the cluster in namespace %s: %w", f.namespace, err)
	}
	dial := client.PortForward(seedConfig, seed.Kube, f.namespace)
	if f.direct {
		dial = nil
	}
	o, accept := hostedOptions(cmd)
	return &hosted.Plane{
		Name: strings.TrimPrefix(
			f.namespace,
			"cluster-",
		),
		Namespace: f.namespace,
		Seed:      seed,
		User:      user,
		Scrape:    hosted.NewScraperThrough(user, dial),
		Options:   o,
		Accept:    accept,
		Holder: lock.Holder(
			client.UserName(),
		),
		StealLock:   console.BoolFlag(cmd, "steal-lock"),
		ToolVersion: client.Version,
		Clock:       fault.Clock(),
		Hook:        fault.Hook,
		Tell:        func(s string) { c.Narrate("%s", s) },
		Pinned:      strings.ToLower(strings.TrimSpace(console.StringFlag(cmd, "plan-sha256"))),
	}, nil
}

// userConfig is how the hosted cluster is reached: as --kubeconfig and --context say, where one of them is given, else
// as the seed says.
func userConfig(ctx context.Context, c *client.Client, f seedFlags, seed hosted.Clients) (*rest.Config, error) {
	if c.NoSecrets && c.Kubeconfig != "" {
		// The file is likely to be what the seed's Secret holds, which is not read here: it may be trusted no more.
		cfg, err := kubeconfig.ReadFile(c.Kubeconfig, c.Context)
		if err != nil {
			return nil, fmt.Errorf("%w\nfor a kubeconfig of your own that may run a program, name its context with --context alone", err)
		}
		return cfg, nil
	}
	if c.Kubeconfig != "" || c.Context != "" {
		read, err := client.ReadKubeconfig(c.Kubeconfig, client.Choice{Context: c.Context})
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		cfg := tuned(read.Config)
		kubeconfig.RefuseRedirects(cfg)
		return cfg, nil
	}
	s, err := seed.Kube.CoreV1().Secrets(f.namespace).Get(ctx, kubeconfig.SecretName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf(
			"reading Secret %s/%s of the seed, by which the cluster is reached: %w\nname its kubeconfig with --kubeconfig",
			f.namespace,
			kubeconfig.SecretName,
			err,
		)
	}
	cfg, err := kubeconfig.ReadSecret(s)
	if err != nil {
		return nil, fmt.Errorf(
			"reaching the cluster as the seed says: %w\nor name a kubeconfig of your own with --kubeconfig",
			err,
		)
	}
	return tuned(cfg), nil
}

// read reads the seed's kubeconfig.
func (f seedFlags) read() (client.Kubeconfig, error) {
	return client.ReadKubeconfig(f.kubeconfig, client.Choice{Context: f.context})
}

// seedAddress is the context by which the seed is reached, and its API server.
func seedAddress(f seedFlags) (contextName, server string) {
	read, err := f.read()
	if err == nil {
		server = read.Config.Host
	}
	return cmp.Or(f.context, read.Current), server
}

func tuned(cfg *rest.Config) *rest.Config {
	if cfg != nil {
		cfg.UserAgent, cfg.QPS, cfg.Burst, cfg.Timeout = "transplant/"+client.Version, 50, 100, 15*time.Second
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
	return v1.Options{
		Strategy:    text("strategy"),
		Image:       text("image"),
		Env:         list("ccm-env"),
		LeaseName:   text("lease-name"),
		ClusterName: text("cluster-name"),
		NodeIPAM:    text("node-ipam"),
	}, accept
}

// hostedFlags are what each command understands of a control plane in a seed, next to the global flags that say how
// answers look.
var hostedFlags = map[string][]string{
	"check": {"strategy", "image", "ccm-env", "lease-name", "cluster-name", "accept", "strict", "problems", "wait", "output"},
	"plan":  {"strategy", "image", "ccm-env", "lease-name", "cluster-name", "node-ipam", "accept", "output"},
	"apply": {
		"strategy", "image", "ccm-env", "lease-name", "cluster-name", "node-ipam", "accept", "yes", "dry-run",
		"steal-lock", "plan-sha256", "slo", "output",
	},
	"rollback": {"yes", "dry-run", "steal-lock", "plan-sha256", "slo", "output"},
	"status":   {"watch", "output"},
	"timeline": {"watch", "since", "output"},
	"pause":    {"reason", "output"},
	"resume":   {"output"},
	"unlock":   {"yes", "force", "output"},
	"renew":    {"all", "output"},
	"bundle":   {"out", "max-size", "timeout", "since", "tail", "output"},
}

// seedOnly are the flags that mean something in a seed alone.
var seedOnly = []string{"seed-kubeconfig", "seed-context", "seed-direct", "part"}

// checkHostedFlags refuses flags that a command does not look at where a seed hosts the control plane.
func checkHostedFlags(cmd *cobra.Command) error {
	known := slices.Concat(
		hostedFlags[cmd.Name()],
		seedOnly,
		[]string{"seed-namespace", "kubeconfig", "context", "state-dir", "help"},
		console.DisplayFlags,
	)
	var others []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) {
			others = append(others, f.Name)
		}
	})
	return console.RefuseFlags(cmd, "the control plane runs as Deployments in a seed (--seed-namespace)", others...)
}
