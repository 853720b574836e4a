package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/fleet/view"
)

const (
	// remembered is for how long an answer of the API server about a user's identity or rights is believed. A revoked
	// token, or a removed right, works for so much longer at most.
	remembered = 30 * time.Second
	// answers bounds how many are remembered.
	answers = 20000
	// asking bounds a question to the API server, and questions how many are under way at a time.
	asking    = 10 * time.Second
	questions = 16
)

// person is who asks, and how they proved it.
type person struct {
	authenticationv1.UserInfo
	token string
	// session is nil for who sent the token with the request.
	session *session
}

// authority asks the seed's API server who a user is and what the user may do.
type authority struct {
	kube  kubernetes.Interface
	clock clock.PassiveClock
	// turn has a place for each question under way.
	turn chan struct{}

	mu    sync.Mutex
	known map[string]answer
}

// answer is remembered until its time. The keys hold the hash of a token, never the token.
type answer struct {
	until time.Time
	user  *authenticationv1.UserInfo // nil without a user
	yes   bool
}

func newAuthority(kube kubernetes.Interface, c clock.PassiveClock) *authority {
	return &authority{
		kube:  kube,
		clock: c,
		turn:  make(chan struct{}, questions),
		known: map[string]answer{},
	}
}

// getAnswer returns what is remembered, or asks for it.
func (a *authority) getAnswer(
	ctx context.Context,
	key string,
	ask func(context.Context) (answer, error),
) (answer, error) {
	a.mu.Lock()
	old, ok := a.known[key]
	a.mu.Unlock()
	if ok && a.clock.Now().Before(old.until) {
		return old, nil
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return answer{}, &refusal{http.StatusServiceUnavailable, "too many people ask at a time: try again"}
	}
	got, err := ask(ctx)
	if err != nil {
		return answer{}, err
	}
	now := a.clock.Now()
	got.until = now.Add(remembered)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= answers {
		for k, old := range a.known {
			if !now.Before(old.until) {
				delete(a.known, k)
			}
		}
		if len(a.known) >= answers {
			clear(a.known)
		}
	}
	a.known[key] = got
	return got, nil
}

// who is whose token this is; nil for a token of no user.
func (a *authority) who(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	sum := sha256.Sum256([]byte(token))
	got, err := a.getAnswer(ctx, "who "+hex.EncodeToString(sum[:]), func(ctx context.Context) (answer, error) {
		review, err := a.kube.AuthenticationV1().
			TokenReviews().
			Create(
				ctx,
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
				metav1.CreateOptions{},
			)
		if err != nil {
			return answer{}, fmt.Errorf("asking the seed whose token it is: %w", scrubbed(err, token))
		}
		if !review.Status.Authenticated {
			return answer{}, nil
		}
		return answer{user: &review.Status.User}, nil
	})
	return got.user, err
}

// scrubbed is an error without a token that it may quote.
func scrubbed(err error, token string) error {
	if token != "" && strings.Contains(err.Error(), token) {
		return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), token, "(token)"))
	}
	return err
}

// may asks whether a user may do that with the Cluster, or with every Cluster of the group when the name is empty.
func (a *authority) may(ctx context.Context, p *person, verb string, key view.Key) (bool, error) {
	sum := sha256.Sum256(
		fmt.Appendf(nil, "%q %q %q %q %q %q %q", p.Username, p.UID, p.Groups, p.Extra, verb, key.Group, key.Name),
	)
	got, err := a.getAnswer(ctx, "may "+hex.EncodeToString(sum[:]), func(ctx context.Context) (answer, error) {
		extra := map[string]authorizationv1.ExtraValue{}
		for k, v := range p.Extra {
			extra[k] = authorizationv1.ExtraValue(v)
		}
		review, err := a.kube.AuthorizationV1().
			SubjectAccessReviews().
			Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   p.Username,
				UID:    p.UID,
				Groups: p.Groups,
				Extra:  extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb:     verb,
					Group:    key.Group,
					Version:  "v1",
					Resource: "clusters",
					Name:     key.Name,
				},
			}}, metav1.CreateOptions{})
		if err != nil {
			return answer{}, fmt.Errorf("asking the seed what %s may: %w", p.Username, err)
		}
		return answer{yes: review.Status.Allowed && !review.Status.Denied}, nil
	})
	return got.yes, err
}
