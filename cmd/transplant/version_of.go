package main

import (
	"context"
	"net/http"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// versionOf asks a component on a host for the version of its program: an API server for /version, any other for its build's metric. Empty when it
// answers and does not tell this account.
func (c *connection) versionOf(ctx context.Context, manager, host, address string) (version string, err error) {
	err = c.asked(ctx, manager, host, func(ctx context.Context, client *http.Client, token string) error {
		if manager == component.KAS {
			version, err = ownership.Version(ctx, client, address, token)
			return err
		}
		m, err := ownership.Scrape(ctx, client, address, token)
		version = m.Version
		return err
	})
	if ownership.Refused(err) {
		return "", nil
	}
	return version, err
}
