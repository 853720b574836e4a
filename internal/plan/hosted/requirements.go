package hosted

import (
	"errors"
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// firstLeaderMigration is the first minor of which a hosted kube-controller-manager gets leader migration: before it a
// gate is needed as well.
const firstLeaderMigration = 22

// checkReady says what keeps a hosted control plane from being planned for.
func checkReady(d *draft.Draft, m *v1.Component) error {
	var errs []error
	n, err := d.MinorOf(m)
	d.KCMMinor = n
	switch {
	case m.Error != "":
		return fmt.Errorf("%s: %s", m.Manifest, m.Error)
	case err != nil:
		return fmt.Errorf("%s: %w", m.Manifest, err)
	case d.Options.Part == v1.PartInstall:
		return checkInstall(d, m)
	case d.Provider.Name == "":
		return fmt.Errorf(
			"%s names no in-tree provider (--cloud-provider=%q): nothing has to move here",
			m.Manifest,
			m.Flags["cloud-provider"],
		)
	case m.Replicas != nil && *m.Replicas == 0:
		errs = append(errs, fmt.Errorf("%s has no replicas: wake the control plane up first", m.Manifest))
	case n < component.Oldest || n > d.Provider.LastInTree:
		errs = append(
			errs,
			fmt.Errorf(
				"%s is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s",
				m.Manifest,
				n,
				component.Oldest,
				d.Provider.LastInTree,
				d.Provider.Name,
			),
		)
	}
	if m.Flags["leader-elect"] == "false" {
		errs = append(
			errs,
			fmt.Errorf(
				"%s runs with --leader-elect=false: nothing keeps an old pod from acting next to a new one; remove the flag first",
				m.Manifest,
			),
		)
	}
	if d.Options.Part == v1.PartFinish {
		return errors.Join(append(errs, checkIPAMHasMoved(d, m))...)
	}
	errs = append(errs, chooseNodeIPAM(d, m)...)
	return errors.Join(append(errs, checkHandover(d, m))...)
}

// chooseNodeIPAM decides whether node IPAM moves: where it takes pod CIDRs from the cloud, and where that is asked for.
// Elsewhere it stays, and needs no word.
func chooseNodeIPAM(d *draft.Draft, m *v1.Component) []error {
	if m.Flags["cidr-allocator-type"] == "" && d.Options.NodeIPAM == "" {
		return nil
	}
	return external.ChooseNodeIPAM(d, m)
}

// checkIPAMHasMoved refuses to take the provider from a manager that gives out pod CIDRs with it: the loop would start
// no longer. It refuses a move that the handover has not made, too.
func checkIPAMHasMoved(d *draft.Draft, m *v1.Component) error {
	if m.Flags["allocate-node-cidrs"] != "true" || flagvalue.IsLoopDisabled(m.Flags["controllers"], clusterview.NodeIPAM) {
		return nil
	}
	switch allocator := m.Flags["cidr-allocator-type"]; {
	case allocator != "" && allocator != component.RangeAllocator:
		return fmt.Errorf(
			"%s takes pod CIDRs from the cloud (--cidr-allocator-type=%s), and could not without its provider: plan the handover first, which moves node IPAM",
			m.Manifest,
			allocator,
		)
	case d.Options.NodeIPAM == v1.IPAMMove:
		return fmt.Errorf(
			"--node-ipam=%s: node IPAM moves with the handover alone, and %s has it since; leave the option out",
			v1.IPAMMove,
			m.Manifest,
		)
	}
	return nil
}

// checkHandover says what keeps the loops from being handed over, next to what keeps any part from being planned.
func checkHandover(d *draft.Draft, m *v1.Component) error {
	if d.Options.Part != v1.PartInstall {
		if err := ccm.CheckCloudConfig(d, m, m.Manifest); err != nil {
			return err
		}
	} else if configPath(d, m) == "" && !isConfigGiven(d, m) {
		return fmt.Errorf(
			"%s mounts no cloud config: make Secret %s with key %s in namespace %s",
			m.Manifest,
			layout.SeedCloudConfig,
			layout.SeedCloudConfigKey,
			d.Snapshot.Cluster.Seed,
		)
	}
	if c := m.CloudConfig; c != nil && c.Error != "" {
		return fmt.Errorf(
			"the cloud config of %s could not be read or turned into the external provider's: %s",
			m.Manifest,
			c.Error,
		)
	}
	return nil
}

// chooseStrategy chooses the strategy, and says why the one that was asked for cannot be.
func chooseStrategy(d *draft.Draft, m *v1.Component) error {
	why := ""
	switch {
	case d.KCMMinor < firstLeaderMigration:
		why = fmt.Sprintf(
			"%s of 1.%d has no leader migration that is on by default, which came with 1.%d",
			component.KCM,
			d.KCMMinor,
			firstLeaderMigration,
		)
	case !d.Program.LeaderMigration:
		why = fmt.Sprintf(
			"the manager in image %s has no leader migration: it would take the flags and run the loops next to the in-tree manager",
			d.Program.Image,
		)
	case len(runningLoops(d)) < len(expectedLoops(d)):
		why = fmt.Sprintf(
			"%s has some of the cloud loops switched off: whether a pod respects the migration lease is not to be seen of what runs",
			m.Manifest,
		)
	}
	switch {
	case d.Options.Strategy == "":
		d.Options.Strategy, _ = draft.ChooseStrategy(d.Snapshot, d.Options)
		if d.Options.Strategy == planstep.LeaderMigration && why != "" {
			d.Options.Strategy = planstep.Downtime
			d.Notes = append(d.Notes, "strategy downtime, although there are several replicas: "+why)
		}
	case d.Options.Strategy == planstep.LeaderMigration && why != "":
		return fmt.Errorf(
			"%s; or plan with --strategy=%s, which leaves the loops without a manager for a while",
			why,
			planstep.Downtime,
		)
	}
	return nil
}

// runningLoops are the loops that run in a pod of kube-controller-manager now, as the pods say. As long as no pod could
// be asked, its flags decide. That is so until the account is made by which the pods are asked. A plan that is shown
// before that is the one that is executed behind it.
func runningLoops(d *draft.Draft) []string {
	asked := slices.ContainsFunc(
		d.Snapshot.Managers,
		func(m v1.Manager) bool { return m.Component == component.KCM && m.Error == "" },
	)
	byFlags := !asked && catalogue.ShowsLoops(component.KCM, d.KCMMinor)
	var out []string
	for _, l := range d.MovedLoops() {
		if byFlags && !flagvalue.IsLoopDisabled(clusterview.FindHosted(d.Snapshot, component.KCM).Flags["controllers"], l) {
			out = append(out, string(l))
		}
		for _, m := range d.Snapshot.Managers {
			if m.Component == component.KCM && slices.Contains(m.Loops, string(l)) && !slices.Contains(out, string(l)) {
				out = append(out, string(l))
			}
		}
	}
	return out
}

// expectedLoops are the loops that a manager of this cluster runs.
func expectedLoops(d *draft.Draft) []string {
	m := clusterview.FindHosted(d.Snapshot, component.KCM)
	out := clusterview.ExpectedLoops(d.Provider.Name, m.Flags, m.CloudConfig)
	if d.MoveIPAM {
		out = append(out, string(controllernames.NodeIPAM))
	}
	return out
}

// checkInstall says what keeps a first cloud-controller-manager from being planned.
func checkInstall(d *draft.Draft, m *v1.Component) error {
	var errs []error
	switch p := m.Flags["cloud-provider"]; {
	case p != "" && p != "external":
		return fmt.Errorf(
			"%s runs the in-tree provider %s: its loops are handed over, and no other manager is started next to it",
			m.Manifest,
			p,
		)
	case d.Provider.Name == "":
		return errors.New("the cluster does not say which cloud it is in: name it in spec.cloud.providerName")
	case m.Replicas != nil && *m.Replicas == 0:
		errs = append(errs, fmt.Errorf("%s has no replicas: wake the control plane up first", m.Manifest))
	}
	if d.KCMMinor < component.Oldest || d.KCMMinor > component.Newest {
		errs = append(
			errs,
			fmt.Errorf(
				"%s is of 1.%d: managers are installed for 1.%d to 1.%d",
				m.Manifest,
				d.KCMMinor,
				component.Oldest,
				component.Newest,
			),
		)
	}
	if c := clusterview.FindHosted(d.Snapshot, component.CCM); c != nil {
		errs = append(errs, fmt.Errorf("%s runs a %s already: it is left alone", c.Manifest, component.CCM))
	}
	return errors.Join(append(errs, checkHandover(d, m))...)
}
