package service

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
)

// failing makes calls of a kind fail.
func failing(kind string, err error) func(context.Context, string, string) error {
	return func(_ context.Context, call, _ string) error {
		if call == kind {
			return err
		}
		return nil
	}
}

// trying notes when it is ensured, since the first time.
func trying(tries *[]time.Duration, err error) func(context.Context, string, string) error {
	var begun time.Time
	return func(_ context.Context, call, _ string) error {
		if begun.IsZero() {
			begun = time.Now()
		}
		if call == "ensure" {
			*tries = append(*tries, time.Since(begun))
		}
		return err
	}
}

// inAnyOrder compares calls of workers that run beside each other.
var inAnyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })
