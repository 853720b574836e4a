package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

// A request that was throttled is tried again so often, and waits no longer than longestThrottle each time. A worker
// that waits for Octavia's rate limit keeps other Services waiting, and the queue's own back-off is there for the rest.
const (
	throttledTries  = 3
	longestThrottle = 5 * time.Second
)

// waitThrottled waits as long as a 429 says, or 0.5 s, 1 s and 2 s.
func waitThrottled(
	ctx context.Context,
	refusal *gophercloud.ErrUnexpectedResponseCode,
	_ error,
	tries uint,
) error {
	wait := time.Second / 4 << tries
	if seconds, err := strconv.Atoi(refusal.ResponseHeader.Get("Retry-After")); err == nil && seconds >= 0 {
		wait = time.Duration(seconds) * time.Second
	}
	if wait > longestThrottle {
		return *refusal
	}
	if err := sleep(ctx, wait); err != nil {
		return errors.Join(err, *refusal)
	}
	return nil
}

// readTries is how often a read is tried in all.
const readTries = 3

// retryRead tries a read again that the cloud, or a proxy before it, could not answer. A change is never sent twice:
// it is unknown whether the first one was made.
func retryRead(
	ctx context.Context,
	method, _ string,
	_ *gophercloud.RequestOpts,
	err error,
	tries uint,
) error {
	if method != http.MethodGet || tries >= readTries || ctx.Err() != nil || errors.Is(err, election.ErrFenced) {
		return err
	}
	switch statusOf(err) {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return err
	}
	if waited := sleep(ctx, time.Second/4<<tries); waited != nil {
		return errors.Join(err, waited)
	}
	return nil
}

// sleep waits between a half and the whole of a time, so that clients that failed together do not come back together.
func sleep(ctx context.Context, wait time.Duration) error {
	if wait > 0 {
		wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // no secret
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting %s before OpenStack is asked again: %w", wait.Round(time.Millisecond), context.Cause(ctx))
	}
}
