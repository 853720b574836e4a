package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/dryrun"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// ProofOptions are the flags of what is proven by doing, where no rule can know.
type ProofOptions struct {
	Asked  bool
	Config string
}

// Prove adds the proofs to a snapshot that was just gathered. It never fails: what could not be proven is among the
// snapshot's errors.
func (c *Client) Prove(ctx context.Context, s *v1.Snapshot, o v1.Options) {
	progress := &collect.Progress{}
	defer ShowGathering(c, progress)()
	answered := progress.Ask("the new provider's answer about each node")
	snapshot.SetPreview(s, c.preview(ctx, s))
	answered()
	defer progress.Ask("the dry run of the plan's objects")()
	made, err := plan.Make(s, o, nil, Now())
	if err != nil {
		snapshot.SetDryRuns(s, nil, "no plan can be made: "+mask.Error(err))
		return
	}
	snapshot.AskAgain(
		ctx,
		s,
		collect.Sources{Kube: c.Kube, Server: mask.Server(c.Config.Host)},
		c.needs(permission.NeedsOf(made.Steps)),
	)
	// A look sends no deletions: an audit log names them without saying that nothing was to be stored.
	kept := slices.DeleteFunc(made.Steps, func(s v1.Step) bool { return s.Kind == v1.StepDeleteObject })
	snapshot.SetDryRuns(s, dryrun.Run(ctx, step.Options{Dynamic: c.Dynamic}, kept), "")
}

// preview asks the new provider about the nodes of a snapshot; nil where no program has the provider's code.
func (c *Client) preview(ctx context.Context, s *v1.Snapshot) *v1.Preview {
	out := &v1.Preview{Provider: s.Cluster.Provider}
	if s.Cluster.Provider == "" {
		out.Error = "no manager that was seen names a provider, or several do"
		return out
	}
	if !cloudprovider.HasProgram(s.Cluster.Provider) && !c.Clouds.MayPreview(s.Cluster.Provider) {
		return nil
	}
	config, err := c.cloudConfig(ctx, s)
	if err != nil {
		out.Error = mask.Error(err)
		return out
	}
	got, err := c.Clouds.Preview(ctx, s.Cluster.Provider, config, s.Nodes)
	if err != nil {
		out.Error = mask.Error(err)
		return out
	}
	return got
}

// cloudConfig is the external provider's config. It is the one that was named, or is derived from that of a
// kube-controller-manager, on the first host that has one. A manager without any runs without.
func (c *Client) cloudConfig(ctx context.Context, s *v1.Snapshot) ([]byte, error) {
	if c.Proof.Config != "" {
		data, err := os.ReadFile(c.Proof.Config)
		if err != nil {
			return nil, fmt.Errorf("reading --preview-cloud-config: %w", err)
		}
		return data, nil
	}
	for _, h := range s.Hosts {
		at := slices.IndexFunc(c.Hosts, func(access hostaccess.Host) bool { return access.Name() == h.Name })
		if h.CloudConfig == nil || at < 0 {
			continue
		}
		file, err := c.Hosts[at].ReadFile(ctx, h.CloudConfig.Path)
		if err != nil {
			return nil, fmt.Errorf("reading the cloud config of host %s: %w; name one with --preview-cloud-config", h.Name, err)
		}
		derived, err := cloudconfig.Derive(s.Cluster.Provider, file.Data)
		if err != nil {
			return nil, fmt.Errorf(
				"deriving the new provider's cloud config from %s of host %s: %w; name one with --preview-cloud-config",
				h.CloudConfig.Path,
				h.Name,
				err,
			)
		}
		return derived.Data, nil
	}
	if len(c.Hosts) == 0 {
		return nil, errors.New(
			"no host can be read, so the cloud config is not known: name one with --preview-cloud-config, or the hosts with --host-access",
		)
	}
	return nil, nil
}

// ShowGathering shows what a gathering waits for until stop is called.
func ShowGathering(c *Client, p *collect.Progress) (stop func()) {
	if c.Console == nil {
		return func() {} // a part of a command, tried by itself
	}
	return c.ShowWait(func() string { return describeGathering(p.Waits(time.Now())) })
}

// describeGathering says how far a gathering is; empty where it waits for nothing at the moment.
func describeGathering(w collect.Waits) string {
	const most = 3
	if len(w.For) == 0 {
		return ""
	}
	waiting := "waiting for " + english.FirstOf(most, w.For) + " (" + wording.CompactDuration(w.Longest.Seconds()) + ")"
	if w.Hosts == 0 {
		return "gathering: " + waiting
	}
	return fmt.Sprintf("gathering: %d of %s read, %s", w.Read, english.Count(w.Hosts, "host"), waiting)
}

// Gather looks at everything once, and shows what it waits for.
func (c *Client) Gather(ctx context.Context, o v1.Options) *v1.Snapshot {
	progress := &collect.Progress{}
	defer ShowGathering(c, progress)()
	return snapshot.Gather(ctx, collect.Sources{
		Progress:      progress,
		Kube:          c.Kube,
		Dynamic:       c.Dynamic,
		Traffic:       &c.Traffic,
		Hosts:         c.Hosts,
		HostsAreNodes: c.Pods,
		NamedHosts:    c.Host.ControlPlane,
		Cloud:         c.inv,
		Context:       c.Context,
		Server:        mask.Server(c.Config.Host),
		ToolVersion:   Version,
		Now:           time.Now,
		Scrape: func(ctx context.Context, component, host, address string) v1.Manager {
			m, err := c.scrapeWithin(ctx, collect.DefaultTimeout, component, host, address)
			if err != nil {
				m.Error = mask.Error(err)
			}
			m.Component, m.Host, m.Address = component, host, address
			return m
		},
	}, collect.Options{
		LeaseName:              cmp.Or(o.LeaseName, component.MigrationLease),
		Files:                  slices.Concat(planlayout.Files(), planlayout.EnvFiles(o)),
		TokenFile:              planlayout.CCMToken,
		ObjectRefs:             planlayout.ObjectRefs(),
		Needs:                  c.needs(permission.DefaultNeeds),
		AskCredentialProviders: c.Proof.Asked,
	})
}

// SnapshotFrom reads a snapshot from a file, or gathers one from the live cluster, with the proofs that were asked for.
// The options are those of the plan that the proofs are about.
func (c *Client) SnapshotFrom(ctx context.Context, path string, options v1.Options) (*v1.Snapshot, error) {
	if path != "" {
		return ReadSnapshot(path)
	}
	if err := c.Open(ctx); err != nil {
		return nil, err
	}
	snap := c.Gather(ctx, options)
	if c.Proof.Asked {
		c.Prove(ctx, snap, options)
	}
	return snap, nil
}

// ReadSnapshot reads a snapshot from a file.
func ReadSnapshot(path string) (*v1.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf(
			"snapshot %s: reading the snapshot: it is a directory; name the file that transplant snapshot wrote",
			path,
		)
	}
	s, err := snapshot.Load(file)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	if s.TakenAt.IsZero() {
		return nil, fmt.Errorf(
			"snapshot %s does not say when it was taken: it was cut off or edited; take it again with transplant snapshot",
			path,
		)
	}
	return s, nil
}

// NodesOfHosts maps hosts to their nodes.
func NodesOfHosts(s *v1.Snapshot) map[string]string {
	out := map[string]string{}
	for _, h := range s.Hosts {
		out[h.Name] = h.NodeName
	}
	return out
}

// HostsOfNodes maps nodes to their hosts, which may be called as their nodes.
func HostsOfNodes(hosts []hostaccess.Host, s *v1.Snapshot) map[string]hostaccess.Host {
	names := map[string]string{}
	if s != nil {
		names = NodesOfHosts(s)
	}
	out := map[string]hostaccess.Host{}
	for _, h := range hosts {
		out[cmp.Or(names[h.Name()], h.Name())] = h
	}
	return out
}
