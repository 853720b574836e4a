package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/dryrun"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// proof are the flags of what is proven by doing, where no rule can know.
type proof struct {
	asked  bool
	config string
}

func (p *proof) flags(f *pflag.FlagSet) {
	f.BoolVar(&p.asked, "prove", false, "prove what no rule can know, writing nothing: ask the new provider's own code for every node, send what apply would write with dryRun=All, "+
		"ask for exactly the rights that the plan needs, and run each host's image credential providers")
	f.StringVar(&p.config, "preview-cloud-config", "", "the external provider's cloud config for --prove (default: derived from the one that the kube-controller-manager has)")
}

// prove adds the proofs to a snapshot that was just gathered. It never fails: what could not be proven is among the snapshot's errors.
func (c *connection) prove(ctx context.Context, s *v1.Snapshot, o v1.Options) {
	klog.SetLogger(logr.Discard()) // the provider's code logs what it does as if it were the manager
	snapshot.SetPreview(s, c.preview(ctx, s))
	made, err := plan.Make(s, o, nil, now())
	if err != nil {
		snapshot.SetDryRuns(s, nil, "no plan can be made: "+mask.Error(err))
		return
	}
	snapshot.AskAgain(ctx, s, collect.Sources{Kube: c.kube, Server: c.config.Host}, c.needs(permission.NeedsOf(made.Steps)))
	snapshot.SetDryRuns(s, dryrun.Run(ctx, c.dynamic, made.Steps), "")
}

// preview asks the new provider about the nodes of a snapshot.
func (c *connection) preview(ctx context.Context, s *v1.Snapshot) *v1.Preview {
	out := &v1.Preview{Provider: s.Cluster.Provider}
	if s.Cluster.Provider == "" {
		out.Error = "no manager that was seen names a provider, or several do"
		return out
	}
	config, err := c.cloudConfig(ctx, s)
	if err != nil {
		out.Error = mask.Error(err)
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	source, err := preview.Open(ctx, s.Cluster.Provider, config, s.Nodes)
	if err != nil {
		out.Error = mask.Error(err)
		return out
	}
	return source.Preview(ctx, s.Nodes)
}

// cloudConfig is the external provider's config: the one that was named, or the one that is derived from that of a kube-controller-manager, on the first
// host that has one. A manager without any runs without.
func (c *connection) cloudConfig(ctx context.Context, s *v1.Snapshot) ([]byte, error) {
	if c.proof.config != "" {
		data, err := os.ReadFile(c.proof.config)
		if err != nil {
			return nil, fmt.Errorf("reading --preview-cloud-config: %w", err)
		}
		return data, nil
	}
	for _, h := range s.Hosts {
		at := slices.IndexFunc(c.hosts, func(access hostaccess.Host) bool { return access.Name() == h.Name })
		if h.CloudConfig == nil || at < 0 {
			continue
		}
		file, err := c.hosts[at].ReadFile(ctx, h.CloudConfig.Path)
		if err != nil {
			return nil, fmt.Errorf("reading the cloud config of host %s: %w; name one with --preview-cloud-config", h.Name, err)
		}
		derived, err := cloudconfig.Derive(s.Cluster.Provider, file.Data)
		if err != nil {
			return nil, fmt.Errorf("deriving the new provider's cloud config from %s of host %s: %w; name one with --preview-cloud-config", h.CloudConfig.Path, h.Name, err)
		}
		return derived.Data, nil
	}
	if len(c.hosts) == 0 {
		return nil, errors.New("no host can be read, so the cloud config is not known: name one with --preview-cloud-config, or the hosts with --host-access")
	}
	return nil, nil
}
