package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/plan/options"
)

// A flag that has no effect in a combination is refused: whoever gave it believes that it had one.

// liveFlags say which cluster, hosts and cloud are looked at. A snapshot in a file was taken of one cluster already.
var liveFlags = []string{"kubeconfig", "context", "host-access", "host-image", "cloud"}

// planOptionFlags are the flags that stand in a plan's options, with the option of each.
var planOptionFlags = map[string]func(v1.Options) any{
	"strategy":              func(o v1.Options) any { return o.Strategy },
	"image":                 func(o v1.Options) any { return o.Image },
	"shape":                 func(o v1.Options) any { return o.Shape },
	"node-ipam":             func(o v1.Options) any { return o.NodeIPAM },
	"volumes":               func(o v1.Options) any { return o.Volumes },
	"credential-provider":   func(o v1.Options) any { return o.CredentialProvider },
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

// runFlags may be given again for a run of a plan that was begun; see overKubelets.
var runFlags = []string{"max-unavailable", "drain-timeout", "force-unmanaged", "soak"}

// flagsGiven are those of the named flags that stand on the command line, in order, each with its dashes.
func flagsGiven(cmd *cobra.Command, names ...string) []string {
	var out []string
	if cmd == nil { // a part of a command, tried by itself
		return nil
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && slices.Contains(names, f.Name) {
			out = append(out, "--"+f.Name)
		}
	})
	slices.Sort(out)
	return out
}

// refuseFlags is an error that names the flags which stand on the command line and would do nothing; nil when none does.
func refuseFlags(cmd *cobra.Command, why string, names ...string) error {
	given := flagsGiven(cmd, names...)
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf("%s would have no effect: %s; leave %s out", strings.Join(given, ", "), why, map[bool]string{true: "it", false: "them"}[len(given) == 1])
}

// checkFromSnapshot refuses flags of a live cluster with a snapshot in a file, and those of a proof without one.
func checkFromSnapshot(cmd *cobra.Command, from string, prove bool) error {
	if from == "" {
		if !prove {
			return refuseFlags(cmd, "only --prove reads it", "preview-cloud-config")
		}
		return nil
	}
	if prove {
		return errors.New("a snapshot in a file proves what it proved when it was taken: give --prove or --from-snapshot")
	}
	return refuseFlags(cmd, "with --from-snapshot neither the cluster nor its hosts nor its cloud are asked, and the file says what was found", append([]string{"preview-cloud-config"}, liveFlags...)...)
}

// checkAgainstPlan refuses options that differ from those of a plan which is there already: the plan's count. The same value again is no contradiction,
// so that a command which was interrupted can be repeated as it was.
func checkAgainstPlan(cmd *cobra.Command, given, planned v1.Options, which string, except ...string) error {
	var differ []string
	if cmd == nil {
		return nil
	}
	for name, option := range planOptionFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || slices.Contains(except, name) {
			continue
		}
		if name == "image" && given.Image == cloudprovider.Official {
			if _, official := cloudprovider.ImageOf(planned.Image); official {
				continue // that is what it stood for
			}
		}
		if !reflect.DeepEqual(option(options.Defaults(given)), option(planned)) {
			differ = append(differ, "--"+name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("%s would have no effect: %s has options of its own, and others; make a new plan with the flags, or leave them out", strings.Join(differ, ", "), which)
}

// checkIgnoredOptions refuses options that no step of a plan for this cluster could follow.
func checkIgnoredOptions(cmd *cobra.Command, snap *v1.Snapshot, o v1.Options) error {
	var errs []error
	for _, ignored := range options.FindIgnored(snap, o) {
		errs = append(errs, refuseFlags(cmd, ignored.Why, ignored.Flags...))
	}
	return errors.Join(errs...)
}

// hostedFlags are what each command understands of a control plane in a seed, beside the global flags that say how answers look.
var hostedFlags = map[string][]string{
	"check":    {"strategy", "image", "ccm-env", "lease-name", "cluster-name", "accept", "strict", "problems", "output"},
	"plan":     {"strategy", "image", "ccm-env", "lease-name", "cluster-name", "accept", "output"},
	"apply":    {"strategy", "image", "ccm-env", "lease-name", "cluster-name", "accept", "yes", "dry-run", "steal-lock"},
	"rollback": {"yes", "dry-run", "steal-lock"},
	"status":   {"output"},
	"renew":    {"all"},
}

// seedOnly are the flags that mean something in a seed alone.
var seedOnly = []string{"seed-kubeconfig", "seed-context", "seed-direct", "part"}

// checkHostedFlags refuses flags that a command does not look at where a seed hosts the control plane.
func checkHostedFlags(cmd *cobra.Command) error {
	known := slices.Concat(hostedFlags[cmd.Name()], seedOnly, []string{"seed-namespace", "kubeconfig", "context", "state-dir", "help"}, spoken)
	var others []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) {
			others = append(others, f.Name)
		}
	})
	return refuseFlags(cmd, "the control plane runs as Deployments in a seed (--seed-namespace)", others...)
}
