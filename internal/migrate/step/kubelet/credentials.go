package kubelet

import (
	"cmp"
	"context"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
)

// Flags by which a kubelet finds image credential providers.
const (
	FlagCredentialConfig = "image-credential-provider-config"
	FlagCredentialDir    = "image-credential-provider-bin-dir"
)

// credentials asks the image credential providers of a kubelet that is about to lose those of the in-tree provider. It
// does so on the kubelet's host, as the kubelet will ask. The provider's own has to answer; of another one it is said
// that it does not. What could not be asked is said, too.
func (x Kubelet) credentials(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	config, dir, named := x.credentialFiles(ctx, s)
	if config == "" || dir == "" {
		return nil
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	var nodes []v1.Node
	if x.Env.Before != nil {
		nodes = x.Env.Before.Nodes
	}
	providers, err := host.AskCredentialProviders(ctx, h, config, dir, x.Env.NodeNames[s.Host], nodes)
	if err != nil {
		return fmt.Errorf(
			"host %s: asking its image credential providers before its kubelet depends on them: %w; nothing was changed",
			s.Host,
			err,
		)
	}
	for _, p := range providers {
		switch needed := named || isOwnProvider(x, p.Name); {
		case p.Answered:
			x.Env.Report(
				s,
				step.EventProgress,
				fmt.Sprintf("image credential provider %s on host %s answered for %s", p.Name, s.Host, p.Asked),
			)
		case p.Present && p.Asked == "":
			x.Env.Note(
				s,
				rec,
				fmt.Sprintf(
					"not proven: whether image credential provider %s on host %s gives credentials (%s)",
					p.Name,
					s.Host,
					cmp.Or(p.Error, "it was not asked"),
				),
			)
		case needed:
			return &step.VerifyError{
				Reason: fmt.Sprintf(
					"image credential provider %s on host %s does not give credentials, and its kubelet is about to lose those of the in-tree provider: %s. Nothing was changed; "+
						"put that right and run the same command again",
					p.Name,
					s.Host,
					p.Error,
				),
			}
		default:
			x.Env.Note(
				s,
				rec,
				fmt.Sprintf(
					"image credential provider %s on host %s does not give credentials, and says: %s",
					p.Name,
					s.Host,
					p.Error,
				),
			)
		}
	}
	if _, err := hostaccess.RunnerOf(h); err != nil && len(providers) > 0 {
		x.Env.Note(s, rec, "not proven: the host's image credential providers were not asked: "+err.Error())
	}
	return nil
}

// credentialFiles are what the kubelet will be told of its providers; named reports whether this step tells it.
func (x Kubelet) credentialFiles(ctx context.Context, s v1.Step) (config, dir string, named bool) {
	for _, e := range s.Edits {
		switch {
		case e.Op != v1.EditSetFlag:
		case e.Name == FlagCredentialConfig:
			config, named = e.Value, true
		case e.Name == FlagCredentialDir:
			dir, named = e.Value, true
		}
	}
	if p, why := x.process(ctx, s.Host); why == "" {
		flags := commandline.FlagsOf(p.Args)
		config, dir = cmp.Or(config, flags[FlagCredentialConfig]), cmp.Or(dir, flags[FlagCredentialDir])
	}
	return config, dir, named
}

// isOwnProvider reports whether a name is that of the cloud provider's program.
func isOwnProvider(x Kubelet, name string) bool {
	p, ok := cloudprovider.Lookup(x.Env.Plan.Cluster.Provider)
	return ok && p.Credentials != nil && p.Credentials.Is(name)
}
