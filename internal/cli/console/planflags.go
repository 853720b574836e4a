package console

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/probe"
)

// AddKubeletFlags are the options about how many nodes change at a time and how they are emptied.
func AddKubeletFlags(fl *pflag.FlagSet, o *v1.Options) {
	fl.StringVar(
		&o.MaxUnavailable,
		"max-unavailable",
		"",
		"how many nodes may be not Ready or under change at a time while kubelets change: N, or N% of all nodes (default 1)",
	)
	fl.StringVar(&o.DrainTimeout, "drain-timeout", "", "how long the pods of a node may take to leave it (default 15m)")
	fl.BoolVar(&o.ForceUnmanaged, "force-unmanaged", false, "let a drain evict pods that no controller brings back")
}

// addCanaryFlags are the options about the first worker of each kind.
func addCanaryFlags(fl *pflag.FlagSet, o *v1.Options) {
	fl.StringVar(
		&o.Soak,
		"soak",
		"",
		"how long the first worker of each kind is watched before another one changes (default 10s)",
	)
	fl.BoolVar(
		&o.PauseAfterCanary,
		"pause-after-canary",
		false,
		"stop after the first worker of each kind; the same command goes on with the others",
	)
}

// AddPlanFlags adds the flags that are options of a plan.
func AddPlanFlags(f *client.PlanOptions, cmd *cobra.Command) {
	f.Given = func(names ...string) []string { return FlagsGiven(cmd, names...) }
	fl := cmd.Flags()
	fl.StringVar(
		&f.Options.Strategy,
		"strategy",
		"",
		"leader-migration or downtime (default: leader-migration where two hosts can hand over, else downtime)",
	)
	fl.StringVar(
		&f.Options.Image,
		"image",
		"",
		"image of the cloud-controller-manager; official is the one that the provider's makers publish for the cluster's minor version, ours is this project's for "+cloudprovider.Enumerate("or", cloudprovider.OwnProviders())+
			" (default: ours on AWS where it is proven, else the official one)",
	)
	fl.StringVar(
		&f.Options.Shape,
		"shape",
		"",
		"static-pod or daemonset: how the cloud-controller-manager runs (default: static-pod where kubelets read manifests)",
	)
	fl.StringVar(
		&f.Options.NodeIPAM,
		"node-ipam",
		"",
		"keep (in the kube-controller-manager) or move (to the cloud-controller-manager) (default: keep, unless the allocator is the cloud's)",
	)
	fl.StringVar(
		&f.Options.Volumes,
		"volumes",
		"",
		"csi or in-tree: who attaches volumes afterwards (default: csi where its driver is on every node)",
	)
	fl.StringVar(
		&f.Options.CredentialProvider,
		"credential-provider",
		"",
		"binary of the image credential provider, on this machine; it is copied to every host whose kubelet needs it. "+
			"{arch} in it stands for a host's architecture, such as amd64",
	)
	fl.BoolVar(
		&f.Options.DisableInTree,
		"disable-in-tree",
		false,
		"also switch the in-tree providers off by feature gates (1.22 to 1.28); "+
			"only a rollback switches them on again",
	)
	fl.BoolVar(
		&f.Options.ReplaceHosts,
		"replace-hosts",
		false,
		"control-plane hosts are replaced and never edited: the plan says what to create, and waits",
	)
	fl.StringVar(
		&f.Options.TargetVersion,
		"target-version",
		"",
		"Kubernetes version of the control plane after the migration, e.g. v1.27.4; the migration's restarts change the images, by one minor version at most (default: no version changes)",
	)
	fl.StringArrayVar(
		&f.Options.Env,
		"ccm-env",
		nil,
		"environment of the cloud-controller-manager, NAME=VALUE; {host} stands for the host's name; never a secret, name a file instead",
	)
	fl.StringVar(&f.Options.LeaseName, "lease-name", component.MigrationLease, "name of the migration lease")
	fl.StringVar(
		&f.Options.RetryPeriod,
		"retry-period",
		options.DefaultRetryPeriod,
		"--leader-elect-retry-period of the managers during the migration",
	)
	fl.StringVar(
		&f.Options.RenewDeadline,
		"renew-deadline",
		options.DefaultRenewDeadline,
		"--leader-elect-renew-deadline of the managers during the migration",
	)
	fl.StringVar(
		&f.Options.ClusterName,
		"cluster-name",
		"",
		"--cluster-name of the cloud-controller-manager (default: what the live kube-controller-manager has)",
	)
	fl.BoolVar(
		&f.Options.KeepLeaderMigration,
		"keep-leader-migration",
		false,
		"leave leader migration on at the end, for a quicker way back",
	)
	AddKubeletFlags(fl, &f.Options)
	addCanaryFlags(fl, &f.Options)
	fl.StringArrayVar(
		&f.Accept,
		"accept",
		nil,
		`accept a finding that blocks, CODE="reason"; mandatory ones cannot be accepted. Apply also takes differences that its verification finds, OBJECT="reason"`,
	)
	CheckBefore(cmd, func(*cobra.Command, []string) error { return checkAccepted(f.Accept) })
	Complete(cmd, "accept", completeAccepted)
	CheckBefore(cmd, func(*cobra.Command, []string) error {
		o := f.Options
		o.CredentialProvider = "" // its digest is taken when the plan is made
		return options.Validate(options.Defaults(o))
	})
	for flag, words := range map[string][]string{
		"strategy":  options.Strategies,
		"shape":     options.Shapes,
		"node-ipam": options.NodeIPAMChoices,
		"volumes":   options.VolumesChoices,
	} {
		Complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// AddProofFlags adds the flags of what is proven by doing.
func AddProofFlags(p *client.ProofOptions, f *pflag.FlagSet) {
	f.BoolVar(
		&p.Asked,
		"prove",
		false,
		"also try what cannot be judged from facts; nothing is written: it asks the new provider's own code about every node, and for the rights that the plan needs; "+
			"it sends the plan's writes with dryRun=All, and runs the hosts' image credential providers",
	)
	f.StringVar(
		&p.Config,
		"preview-cloud-config",
		"",
		"the external provider's cloud config for --prove (default: derived from the one that the kube-controller-manager has)",
	)
}

// AddPinFlag adds the flag that pins a plan by its digest.
func AddPinFlag(f *client.Pin, cmd *cobra.Command) {
	cmd.Flags().
		StringVar(&f.Sha256, "plan-sha256", "", "execute the plan with this SHA-256 and no other, as plan, apply and status print it")
}

// AddProbeFlag adds --probe and what belongs to it to a command that changes a cluster.
func AddProbeFlag(f *client.ProbeOptions, cmd *cobra.Command) {
	cmd.Flags().
		BoolVar(&f.On, "probe", false, "measure next to it what the cluster's clients notice: API, endpoints, load balancers; see transplant probe")
	AddProbeSettings(f, cmd.Flags(), "probe-")
	CheckBefore(cmd, func(cmd *cobra.Command, _ []string) error {
		f.Given = func(name string) bool { return cmd.Flags().Changed(name) }
		if !f.On {
			if err := RefuseFlags(
				cmd,
				"nothing is probed without --probe; a run that was probed before goes on as it was told first",
				"probe-interval",
				"probe-timeout",
				"probe-budget",
				"probe-url",
				"probe-connect-to",
			); err != nil {
				return err
			}
		}
		return f.Check()
	})
}

// AddProbeSettings adds the flags that say how it is probed, each with a prefix.
func AddProbeSettings(f *client.ProbeOptions, fs *pflag.FlagSet, prefix string) {
	PositiveDurationVar(fs, &f.Interval, prefix+"interval", probe.DefaultInterval, "time between two looks at a path")
	PositiveDurationVar(fs, &f.Timeout, prefix+"timeout", probe.DefaultTimeout, "when a look without an answer has failed")
	DurationVar(
		fs,
		&f.Budget,
		prefix+"budget",
		0,
		"longest outage that a path may have: decides pass or fail in the report and in verify, and stops nothing",
	)
	fs.StringArrayVar(&f.Urls, prefix+"url", nil, "also GET this URL; an answer below 500 is good (repeatable)")
	fs.StringArrayVar(
		&f.ConnectTo,
		prefix+"connect-to",
		nil,
		"HOST[:PORT]=ADDRESS[:PORT]: connect there where a load balancer publishes HOST or a URL names it, such as through a tunnel or without its DNS (repeatable)",
	)
}

func addHostFlags(h *client.HostOptions, f *pflag.FlagSet) {
	f.StringVar(
		&h.Access,
		"host-access",
		client.AccessPod,
		"how hosts are reached: pod[:LABEL-SELECTOR] (a pod on each Linux node, or each that has the labels); none (the API alone); local:DIR (a directory for each host in DIR) or "+
			"local:NAME=DIR,...; manual[:WAY] (read through WAY, pod by default; changes are printed for you to make)",
	)
	f.StringVar(
		&h.Image,
		"host-image",
		client.DefaultHostImage(),
		"image of the pods of --host-access=pod: this program as /transplant, and nothing else",
	)
	PositiveDurationVar(
		f,
		&h.Ttl,
		"host-ttl",
		10*time.Minute,
		"how long the pods of --host-access=pod stay when this program is killed",
	)
	f.StringSliceVar(
		&h.ControlPlane,
		hostproof.Flag,
		nil,
		"names of the control-plane hosts, or of their Nodes; needed only where the EndpointSlice default/kubernetes does not tell them (HOST-001 says so)",
	)
	_ = f.MarkHidden("host-ttl") // registered above
}

// CompleteHostAccess are the values of --host-access, for the shell.
func CompleteHostAccess(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{
		client.AccessPod + "\ta pod on each Linux node",
		client.AccessPod + ":\ta pod on each node with these labels",
		client.AccessNone + "\tthe API alone",
		client.AccessLocal + "\tdirectories of this machine",
		client.AccessManual + "\tread through pods, change by hand",
	}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// Complete registers what the shell may put behind a flag.
func Complete(cmd *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err) // the flag is the command's own
	}
}

// AddGlobalFlags adds the flags that all commands have.
func (c *Console) AddGlobalFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, then ~/.kube/config)")
	f.StringVar(&c.Context, "context", "", "context of the kubeconfig")
	f.StringVar(&c.Chosen.Cluster, "cluster", "", "cluster of the kubeconfig, instead of the context's")
	f.StringVar(&c.Chosen.User, "user", "", "user of the kubeconfig, instead of the context's")
	f.StringVar(&c.Chosen.As, "as", "", "user to act as: each request to the API impersonates it")
	f.StringArrayVar(&c.Chosen.AsGroups, "as-group", nil, "group to act as, with --as (repeatable)")
	addHostFlags(&c.Host, f)
	c.Host.ImageGiven = func() bool { return f.Changed("host-image") }
	f.StringVar(
		&c.Clouds.Cloud,
		"cloud",
		"",
		"the cloud to look at, read-only, with the credentials of the environment: aws, azure, gce, openstack, vsphere, or aws:routeTable=rtb-...; without it CLOUD-001 is unknown and blocks",
	)
	f.StringVar(
		&c.Clouds.Path,
		"cloud-program",
		"",
		"the program through which the cloud of --cloud is asked (default: <cloud>-cloud-controller-manager next to transplant, then in PATH)",
	)
	f.StringVar(
		&c.StateDir,
		"state-dir",
		"",
		"where ownership logs are kept (default: $XDG_STATE_HOME/transplant or ~/.local/state/transplant)",
	)
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no narration on standard error")
	c.addVerbosity(f, verboseRequests, "log each request to the API server")
	c.addColorFlag(f)
	f.BoolVar(&c.Ascii, "ascii", false, "marks of plain letters: ok warn FAIL skip ????")
}
