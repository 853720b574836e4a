package election_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/ccm/election"
)

// fenced runs a test with a fence, its clock, and a bubble's time.
func fenced(t *testing.T, test func(t *testing.T, f *election.Fence, c *clock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		test(t, election.NewFence("x", c), c)
	})
}

// refused checks that the fence is closed for a reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	if !errors.Is(err, election.ErrFenced) || !strings.HasSuffix(err.Error(), "lease x: "+reason) {
		t.Errorf("got %v; want a refusal because %s", err, reason)
	}
}

func TestAFenceStartsClosed(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, _ *clock) {
		refused(t, f.Check(), "the lease has not been held yet")
		bound, cancel := f.Bind(t.Context())
		defer cancel()
		refused(t, context.Cause(bound), "the lease has not been held yet")
		if got := f.Refused(); got != 1 {
			t.Errorf("it counts %d refused writes", got)
		}
	})
}

func TestAFenceIsOpenUntilItsTime(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		tenure := election.Tenure{Epoch: 3, AdoptedAt: time.Now()}
		f.Extend(c.Now()+10*time.Second, tenure)
		bound, cancel := f.Bind(t.Context())
		defer cancel()
		<-time.After(10*time.Second - 1)
		if err := f.Check(); err != nil || bound.Err() != nil {
			t.Errorf("it is closed too early: %v, %v", err, bound.Err())
		}
		<-time.After(1)
		synctest.Wait()
		refused(t, context.Cause(bound), "the lease was not renewed in time")
		refused(t, f.Check(), "the lease was not renewed in time")
		if diff := cmp.Diff(tenure, f.Tenure()); diff != "" {
			t.Errorf("tenure (-want +got):\n%s", diff)
		}
	})
}

func TestAnExtendedFenceStaysOpenWithoutAGap(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		f.Extend(c.Now()+10*time.Second, election.Tenure{})
		bound, cancel := f.Bind(t.Context())
		for range 100 {
			<-time.After(9 * time.Second)
			f.Extend(c.Now()+10*time.Second, election.Tenure{})
			if err := f.Check(); err != nil || bound.Err() != nil {
				t.Fatalf("it is closed: %v, %v", err, bound.Err())
			}
		}
		cancel()
		if !errors.Is(bound.Err(), context.Canceled) || errors.Is(context.Cause(bound), election.ErrFenced) {
			t.Errorf("work that is done ends with %v", context.Cause(bound))
		}
	})
}

func TestTimeThatTheMachineIsSuspendedCounts(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		f.Extend(c.Now()+10*time.Second, election.Tenure{})
		bound, cancel := f.Bind(t.Context())
		defer cancel()
		c.suspend(10 * time.Second) // no timer fires
		again, cancelAgain := f.Bind(t.Context())
		defer cancelAgain()
		refused(t, context.Cause(again), "the lease was not renewed in time")
		refused(t, context.Cause(bound), "the lease was not renewed in time") // one look is enough to end all
		refused(t, f.Check(), "the lease was not renewed in time")
	})
}

func TestWhatWasBoundBeforeAnExpiryIsNotRevivedByARenewal(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		f.Extend(c.Now()+10*time.Second, election.Tenure{})
		bound, cancel := f.Bind(t.Context())
		defer cancel()
		c.suspend(time.Minute)
		f.Extend(c.Now()+10*time.Second, election.Tenure{})
		refused(t, context.Cause(bound), "the lease was not renewed in time")
		if err := f.Check(); err != nil {
			t.Errorf("the new opening: %v", err)
		}
	})
}

func TestARevokedFenceNeverOpensAgain(t *testing.T) {
	for name, open := range map[string]bool{"that was open": true, "that was not": false} {
		t.Run(name, func(t *testing.T) {
			fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
				if open {
					f.Extend(c.Now()+time.Second, election.Tenure{})
				}
				bound, cancel := f.Bind(t.Context())
				defer cancel()
				f.Revoke("it is held by y")
				if open {
					refused(t, context.Cause(bound), "it is held by y")
				}
				f.Extend(c.Now()+time.Second, election.Tenure{})
				f.Revoke("again")
				refused(t, f.Check(), "it is held by y")
				<-time.After(time.Minute)
				refused(t, f.Check(), "it is held by y")
			})
		})
	}
}

func TestARenewalThatCameTooLateOpensNothing(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		f.Extend(c.Now(), election.Tenure{Epoch: 1})
		refused(t, f.Check(), "the lease has not been held yet")
	})
}

func TestABoundContextOutlivesItsWorkersContext(t *testing.T) {
	fenced(t, func(t *testing.T, f *election.Fence, c *clock) {
		type key struct{}
		ctx, drain := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		f.Extend(c.Now()+time.Minute, election.Tenure{})
		bound, cancel := f.Bind(ctx)
		drain()
		if bound.Err() != nil || bound.Value(key{}) != "v" || election.FromContext(bound) != f {
			t.Errorf("bound context: %v, value %v", bound.Err(), bound.Value(key{}))
		}
		cancel()
		cancel() // as deferred functions do
	})
}

func TestAFenceWithoutALeaseIsOpenUntilItIsRevoked(t *testing.T) {
	started := time.Now()
	f := election.Unfenced(started)
	bound, cancel := f.Bind(t.Context())
	defer cancel()
	if err := f.Check(); err != nil || bound.Err() != nil || !f.Tenure().AdoptedAt.Equal(started) || f.Lease() != "none" {
		t.Errorf("check %v, bound %v, tenure %v, lease %s", err, bound.Err(), f.Tenure(), f.Lease())
	}
	f.Revoke("the process is ending")
	if !errors.Is(f.Check(), election.ErrFenced) || !errors.Is(context.Cause(bound), election.ErrFenced) {
		t.Errorf("it is open")
	}
}

func TestAFenceIsSafeForConcurrentUse(t *testing.T) {
	f := election.NewFence("x", election.Boottime())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				f.Extend(election.Boottime().Now()+50*time.Microsecond, election.Tenure{})
				bound, cancel := f.Bind(t.Context())
				if err := f.Check(); err != nil && !errors.Is(err, election.ErrFenced) {
					t.Errorf("check: %v", err)
				}
				_ = bound.Err()
				cancel()
			}
		})
	}
	all.Wait()
	f.Revoke("over")
	refused(t, f.Check(), f.Check().Error()[len("this process may no longer act: lease x: "):])
}

func TestTheGuardAsksTheContextsFenceBeforeTheFallback(t *testing.T) {
	open, closed := election.Unfenced(time.Now()), election.NewFence("x", election.Boottime())
	for name, c := range map[string]struct {
		carried, fallback *election.Fence
		passes            bool
	}{
		"the context's is open":              {open, closed, true},
		"the context's is closed":            {closed, open, false},
		"there is a fallback, and it opens":  {nil, open, true},
		"there is a fallback, and it closes": {nil, closed, false},
		"there is none":                      {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if c.carried != nil {
				ctx = election.NewContext(ctx, c.carried)
			}
			if err := election.Guard(ctx, c.fallback); (err == nil) != c.passes || err != nil && !errors.Is(err, election.ErrFenced) {
				t.Errorf("guard: %v", err)
			}
		})
	}
}

// wire is a transport that notes what is sent.
type wire struct{ sent []string }

func (r *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, request.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
}

// body notes that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func TestBehindAClosedFenceATransportSendsReadsOnly(t *testing.T) {
	closed := election.NewFence("x", election.Boottime())
	next := &wire{}
	transport := election.Transport(closed, next)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} {
		content := &body{Reader: strings.NewReader("{}")}
		request, err := http.NewRequestWithContext(t.Context(), method, "http://cloud", content)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
			continue
		}
		if !errors.Is(err, election.ErrFenced) || !content.closed {
			t.Errorf("%s: %v, body closed: %v", method, err, content.closed)
		}
	}
	if diff := cmp.Diff([]string{"GET", "HEAD", "OPTIONS"}, next.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	request, err := http.NewRequestWithContext(election.NewContext(t.Context(), election.Unfenced(time.Now())), "POST", "http://cloud", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := transport.RoundTrip(request); err != nil {
		t.Errorf("a write under an open fence: %v", err)
	} else {
		_ = response.Body.Close()
	}
	if unwrapped := transport.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper(); unwrapped != next {
		t.Errorf("below it is %v", unwrapped)
	}
}

func TestTheClockGoesOn(t *testing.T) {
	clock := election.Boottime()
	before := clock.Now()
	<-time.After(time.Millisecond)
	if after := clock.Now(); after < before+time.Millisecond || before <= 0 {
		t.Errorf("from %s to %s", before, after)
	}
}

func TestAWriteOfNoLeasePassesWhileAnyLeaseIsHeldAndIsRefusedOnce(t *testing.T) {
	main, migration := election.NewFence("main", election.Boottime()), election.NewFence("migration", election.Boottime())
	migration.Extend(election.Boottime().Now()+time.Minute, election.Tenure{})
	if err := election.Guard(t.Context(), nil, main, migration); err != nil {
		t.Errorf("one of two leases is held: %v", err)
	}
	migration.Revoke("test")
	if err := election.Guard(t.Context(), main, migration); !errors.Is(err, election.ErrFenced) {
		t.Errorf("no lease is held: %v", err)
	}
	if got := main.Refused() + migration.Refused(); got != 1 {
		t.Errorf("one write was refused, and %d refusals were counted", got)
	}
}

func TestCallsThatWereGivenUpCountUntilTheLastHasReturned(t *testing.T) {
	f := election.NewFence("x", newClock())
	running := func() bool {
		select {
		case <-f.AbandonedReturned():
			return false
		default:
			return true
		}
	}
	if running() {
		t.Error("a call runs though none was given up")
	}
	for range 2 { // again after all have returned
		first, second := f.NoteAbandoned(), f.NoteAbandoned()
		all := f.AbandonedReturned()
		first()
		first() // which counts once
		if !running() {
			t.Error("no call runs though one of two has not returned")
		}
		second()
		<-all
		if running() {
			t.Error("a call runs though both have returned")
		}
	}
}

// A connection takes its time, and a frozen process goes on in the middle of it. What was allowed before is not sent then.
func TestAWriteThatWaitsForItsConnectionIsNotSentAfterTheFenceHasClosed(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %t", http2), func(t *testing.T) {
			whole := make(chan string, 4)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if data, err := io.ReadAll(r.Body); err == nil {
					whole <- r.Method + " " + string(data)
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			for _, closes := range []bool{false, true} {
				f := election.Unfenced(time.Now())
				next := server.Client().Transport.(*http.Transport).Clone() // with no connection yet, whatever the one before has
				defer next.CloseIdleConnections()
				next.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if closes {
						f.Revoke("a test")
					}
					return (&net.Dialer{}).DialContext(ctx, network, address)
				}
				client := &http.Client{Transport: election.Transport(nil, next)}
				// The context does not end with the fence: that a fence ends what is bound to it is another test's.
				ctx := election.NewContext(t.Context(), f)
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err == nil {
					_ = response.Body.Close()
				}
				if errors.Is(err, election.ErrFenced) != closes {
					t.Errorf("the fence closes: %t; the error is %v", closes, err)
				}
			}
			server.Close() // it waits for its handlers
			close(whole)
			var got []string
			for request := range whole {
				got = append(got, request)
			}
			if diff := cmp.Diff([]string{"POST {}"}, got); diff != "" {
				t.Errorf("requests that came whole (-want +got):\n%s", diff)
			}
		})
	}
}
