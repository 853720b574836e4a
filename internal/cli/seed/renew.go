package seed

import (
	"context"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/managertoken"
)

// Renew renews the token of a manager that a seed hosts.
func Renew(ctx context.Context, h *Command) error {
	if err := h.RefuseGuess(); err != nil {
		return err
	}
	r := managertoken.Renewal{Kube: h.Plane.User.Kube, Now: time.Now, Always: console.BoolFlag(h.cmd, "all")}
	token, err := r.InSeed(ctx, h.Plane.Seed.Kube, h.Plane.Namespace)
	if err != nil {
		return err
	}
	var tokens console.Tokens
	if token.State != managertoken.None {
		tokens.Add(v1.TokenStatus{Namespace: h.Plane.Namespace}, token)
	}
	none := "namespace " + h.Plane.Namespace + ": no manager with a token: nothing to renew"
	return h.PrintTokens(h.output(), tokens, none)
}
