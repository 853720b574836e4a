package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/transplant-dev/transplant/ccm/election"
)

// pace retries requests and slows down operations that are throttled, each on its own: AWS has one allowance per operation, and throttled load
// balancers must not keep nodes from being initialised. An operation that is not throttled is not slowed down at all.
type pace struct {
	mu         sync.Mutex
	operations map[string]*retry.AdaptiveMode
}

var _ aws.RetryerV2 = (*pace)(nil)

func newPace() *pace { return &pace{operations: map[string]*retry.AdaptiveMode{}} }

// of is the retryer of an operation of the client's service.
func (p *pace) of(ctx context.Context) *retry.AdaptiveMode {
	operation := awsmiddleware.GetOperationName(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.operations[operation]
	if r == nil {
		r = retry.NewAdaptiveMode()
		p.operations[operation] = r
	}
	return r
}

// settings is the retryer that is asked for what is the same for all operations.
var settings = retry.NewStandard()

// IsErrorRetryable is false for refusals of the fence: whatever is left to do is the next leader's business.
func (p *pace) IsErrorRetryable(err error) bool {
	return !errors.Is(err, election.ErrFenced) && settings.IsErrorRetryable(err)
}

func (p *pace) MaxAttempts() int { return settings.MaxAttempts() }

func (p *pace) RetryDelay(attempt int, err error) (time.Duration, error) {
	return settings.RetryDelay(attempt, err)
}

func (p *pace) GetRetryToken(ctx context.Context, err error) (release func(error) error, _ error) {
	return p.of(ctx).GetRetryToken(ctx, err)
}

// GetInitialToken is what clients without GetAttemptToken would use.
func (p *pace) GetInitialToken() (release func(error) error) {
	return func(error) error { return nil }
}

// GetAttemptToken waits until the operation may be tried.
func (p *pace) GetAttemptToken(ctx context.Context) (release func(error) error, _ error) {
	return p.of(ctx).GetAttemptToken(ctx)
}
