package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// finalError ends a poll: waiting longer cannot help.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func final(err error) error { return finalError{err} }

// poll calls check until it returns nil or a final error, or ctx ends. The error then says what was still missing.
func poll(ctx context.Context, every time.Duration, what string, check func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if end := (finalError{}); errors.As(err, &end) {
			return fmt.Errorf("waiting for %s: %w", what, end.error)
		}
		if ctx.Err() == nil || last == nil { // an attempt that ctx cut off says less than the one before
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// get makes a GET request and takes every answer but 200 for an error.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("reading answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", url, resp.Status)
	}
	return nil
}
