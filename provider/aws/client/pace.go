package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/transplant-dev/transplant/ccm/election"
)

// The rate of an operation that is throttled, in attempts per second. A lane in which nothing is throttled has no
// limit.
const (
	firstRate = 8.0
	leastRate = 0.5
	freeRate  = 64.0 // from here on, there is none any more
	slower    = 0.5
	faster    = 1.1
	// settling is how long after slowing down further throttles count for the same one: they were under way already.
	settling = time.Second
)

// pace is the retryer of one service's client. It retries as the SDK does by default, and slows down operations that
// are throttled, each in a lane of its own. AWS has an allowance for each, and throttled load balancers must not keep
// nodes from being initialised.
type pace struct {
	aws.RetryerV2
	mu    sync.Mutex
	lanes map[string]*pacer
}

var _ aws.RetryerV2 = (*pace)(nil)

func newPace() *pace { return &pace{RetryerV2: retry.NewStandard(), lanes: map[string]*pacer{}} }

// IsErrorRetryable reports whether a call may be tried again. After a refusal of the fence it may not: whatever is left
// to do is the next leader's business.
func (p *pace) IsErrorRetryable(err error) bool {
	return !errors.Is(err, election.ErrFenced) && p.RetryerV2.IsErrorRetryable(err)
}

// GetAttemptToken waits until the operation may be tried. The token learns how the attempt ended.
func (p *pace) GetAttemptToken(ctx context.Context) (release func(error) error, err error) {
	inner, err := p.RetryerV2.GetAttemptToken(ctx)
	if err != nil {
		return nil, err
	}
	l := p.lane(awsmiddleware.GetOperationName(ctx))
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return func(err error) error {
		l.learn(err)
		return inner(err)
	}, nil
}

func (p *pace) lane(operation string) *pacer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes[operation] == nil {
		p.lanes[operation] = &pacer{}
	}
	return p.lanes[operation]
}

// pacer paces one operation.
type pacer struct {
	mu     sync.Mutex
	rate   float64   // attempts per second; 0 is no limit
	next   time.Time // when the next attempt may be made
	slowed time.Time
}

// wait takes the next place in the lane and waits for its time.
func (l *pacer) wait(ctx context.Context) error {
	delay := l.reserveSlot()
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf(
			"waiting %s because AWS throttles this operation: %w",
			delay.Round(time.Millisecond),
			context.Cause(ctx),
		)
	}
}

func (l *pacer) reserveSlot() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return 0
	}
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	delay := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(time.Second) / l.rate))
	return delay
}

var throttles = retry.IsErrorThrottles(retry.DefaultThrottles)

// learn slows the lane down when an attempt was throttled, and speeds it up when one was answered.
func (l *pacer) learn(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case throttles.IsErrorThrottle(err).Bool():
		switch now := time.Now(); {
		case l.rate == 0:
			l.rate, l.slowed = firstRate, now
		case now.Sub(l.slowed) >= settling:
			l.rate, l.slowed = max(l.rate*slower, leastRate), now
		}
	case err == nil && l.rate > 0:
		if l.rate *= faster; l.rate >= freeRate {
			l.rate = 0
		}
	}
}
