package seed

import (
	"context"
	"time"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Renew renews the token of a manager that a seed hosts.
func Renew(ctx context.Context, h *Command) error {
	r := managertoken.Renewal{Kube: h.Plane.User.Kube, Now: time.Now, Always: console.BoolFlag(h.cmd, "all")}
	token, err := r.InSeed(ctx, h.Plane.Seed.Kube, h.Plane.Namespace)
	if err != nil {
		return err
	}
	if token.State == managertoken.None {
		visible.Fprintf(h.Out, "namespace %s: no manager with a token: nothing to renew\n", h.Plane.Namespace)
		return nil
	}
	return h.PrintToken("namespace "+h.Plane.Namespace, token)
}
