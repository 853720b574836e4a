package options

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Ignored are options, by their flags, that a plan has no use for, and why.
type Ignored struct {
	Flags []string
	Why   string
}

// FindIgnored returns the options that no step of a plan for this cluster could follow. The user who gives one of them
// is told so: the plan would look as if it had an effect.
func FindIgnored(snap *v1.Snapshot, o v1.Options) []Ignored {
	var out []Ignored
	if o.Strategy == planstep.Downtime {
		out = append(out, Ignored{
			Flags: []string{"lease-name", "retry-period", "renew-deadline", "keep-leader-migration"},
			Why:   "the strategy is downtime, which has no migration lease",
		})
	}
	if minor, err := clusterview.ParseMinor("", snap.Cluster.Version); err == nil {
		if g := catalogue.GateFor(component.KCM, catalogue.DisableCloudProviders, minor); !g.Known || g.Default {
			out = append(out, Ignored{
				Flags: []string{"disable-in-tree"},
				Why:   fmt.Sprintf("Kubernetes 1.%d has no such gate, or has it on by default", minor),
			})
		}
	}
	switch {
	case o.ReplaceHosts:
		out = append(out, Ignored{
			Flags: []string{"shape", "volumes"},
			Why:   "hosts are replaced: the new ones come as they are made, with a static pod for the " + component.CCM + " and with CSI or without",
		}, Ignored{
			Flags: []string{"max-unavailable", "drain-timeout", "force-unmanaged", "soak", "pause-after-canary"},
			Why:   "hosts are replaced, and no kubelet is changed",
		})
	case snap.Cluster.Seed == "" && clusterview.FindHosted(snap, component.KCM) != nil:
		out = append(out, Ignored{
			Flags: []string{"shape"},
			Why:   "the control plane runs as Deployments, and the " + component.CCM + " becomes one, too",
		}, Ignored{
			Flags: []string{"volumes"},
			Why:   "the control plane runs as Deployments, whose gates and volume plugins are left alone",
		})
	}
	return out
}
