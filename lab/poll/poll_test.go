package poll_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/poll"
)

func TestAPollSaysWhatWasMissing(t *testing.T) {
	err := poll.Within(t.Context(), time.Millisecond, 20*time.Millisecond, "rain", func(ctx context.Context) error {
		if ctx.Err() != nil {
			return errors.New("cut off")
		}
		return errors.New("the sky is blue")
	})
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "waiting for rain: context deadline exceeded: the sky is blue" {
		t.Errorf("error is %v", err)
	}
}

func TestAFinalErrorEndsAPollAtOnce(t *testing.T) {
	calls, change := 0, errors.New("the climate has changed")
	err := poll.Until(t.Context(), time.Hour, "rain", func(context.Context) error {
		calls++
		return errors.Join(errors.New("noise"), poll.Final(change))
	})
	if calls != 1 || !errors.Is(err, change) || strings.Contains(err.Error(), "noise") {
		t.Errorf("after %d calls: %v, want the final error at once", calls, err)
	}
}

func TestAPollEndsWithoutAnErrorWhenNothingIsMissing(t *testing.T) {
	calls := 0
	poll.Eventually(t, "rain", func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("the sky is blue")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}
