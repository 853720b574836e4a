package plan

import (
	"errors"
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/hosted"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/replace"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// Choose fills in what the options leave to the cluster: strategy, image, shape and what happens to node IPAM and
// volumes, as Make would. What cannot be chosen stays empty, and Make says why.
func Choose(snap *v1.Snapshot, o v1.Options) v1.Options {
	d := draft.New(snap, options.Defaults(o))
	if err := identifyCluster(
		d,
	); err == nil && !d.Options.ReplaceHosts &&
		clusterview.FindHosted(snap, component.KCM) == nil {
		if err := resolveTarget(d); err != nil {
			d.Refusals = append(d.Refusals, err) // Make says it again
		}
	}
	if d.Options.Strategy == "" {
		d.Options.Strategy, _ = draft.ChooseStrategy(snap, o)
	}
	return d.Options
}

// planOtherControlPlane plans for control planes whose hosts are not edited: those that are replaced, and those that
// run as Deployments. It returns false when the snapshot and the options ask for neither.
func planOtherControlPlane(d *draft.Draft) (bool, error) {
	if hosted.IsInSeed(d) {
		return true, hosted.PlanSeed(d)
	}
	if d.Options.ReplaceHosts {
		return true, replace.PlanReplacement(d)
	}
	if m := clusterview.FindHosted(d.Snapshot, component.KCM); m != nil {
		if err := hosted.RefuseUpgrade(d.Options); err != nil {
			return true, err
		}
		return true, hosted.PlanDeployment(d, m)
	}
	return false, nil
}

// identifyCluster finds out whose cluster it is and which program takes the loops over.
func identifyCluster(d *draft.Draft) error {
	name, err := clusterview.InTreeProvider(d.Snapshot)
	if err != nil {
		return err
	}
	if d.Provider, err = clusterview.LookupSupported(name); err != nil || name == "" {
		return err // without a provider nothing is migrated; who plans says what is there instead
	}
	if d.APIMinor, err = clusterview.ParseMinor("", d.Snapshot.Cluster.Version); err != nil {
		d.APIMinor = 0
		for _, h := range d.Snapshot.Hosts {
			if m := clusterview.FindComponent(h, component.KCM); m != nil && d.APIMinor == 0 {
				d.APIMinor, _ = clusterview.ParseMinor(m.Image, "")
			}
		}
	}
	d.Upgrade = draft.UpgradeOf(d.Options)
	return ccm.ChooseImage(d)
}

// resolveTarget finds out what is to be migrated and with what, and says everything that keeps a plan from being made.
func resolveTarget(d *draft.Draft) error {
	var err error
	if d.Hosts, err = clusterview.ControlPlaneHosts(d.Snapshot, d.Provider.Name); err != nil {
		return err
	}
	var errs []error
	d.KCMMinor = component.Newest
	for _, h := range d.Hosts {
		n, err := d.MinorOf(clusterview.FindComponent(h, component.KCM))
		if err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Name, err))
			continue
		}
		d.KCMMinor = min(d.KCMMinor, n)
		if n < component.Oldest || n > d.Provider.LastInTree {
			errs = append(
				errs,
				fmt.Errorf(
					"%s on host %s is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s",
					component.KCM,
					h.Name,
					n,
					component.Oldest,
					d.Provider.LastInTree,
					d.Provider.Name,
				),
			)
		}
	}
	errs = append(errs, checkRegional(d)...)
	errs = append(errs, d.ResolveStrategy()...)
	errs = append(errs, external.ChooseNodeIPAM(d, clusterview.FindComponent(d.Hosts[0], component.KCM))...)
	d.Shape = v1.ShapeStaticPod
	for _, h := range d.Hosts {
		if ccm.ShapeFor(d, h) == v1.ShapeDaemonSet {
			d.Shape = v1.ShapeDaemonSet
		}
	}
	if len(errs) == 0 {
		errs = append(errs, volume.Choose(d)...)
		errs = append(errs, upgrade.Check(d)...)
	}
	return errors.Join(errs...)
}

// checkRegional refuses the variable by which a manager looks for another form of providerID: it would find no instance
// of any node that is there.
func checkRegional(d *draft.Draft) []error {
	if d.Provider.OtherIDs == "" {
		return nil
	}
	for _, e := range d.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		if name != d.Provider.OtherIDs || strings.EqualFold(value, "false") {
			continue
		}
		for _, n := range d.Snapshot.Nodes {
			if strings.HasPrefix(n.ProviderID, d.Provider.OldIDs) {
				return []error{
					fmt.Errorf(
						"%s=%s asks for providerIDs with a region, and node %s has %s: a providerID cannot be changed, and the manager would delete such nodes; leave the variable out",
						name,
						value,
						n.Name,
						n.ProviderID,
					),
				}
			}
		}
	}
	return nil
}
