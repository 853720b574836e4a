package answerlimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a cluster whose answers have as many bytes as are sent.
type server struct {
	b *bounded
	// bodies are those of its answers, in order.
	bodies []*sent
}

// sent is a body of which the test says how much has come.
type sent struct {
	mu     sync.Mutex
	left   int
	closed bool
	come   chan struct{}
}

func (s *sent) send(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
	close(s.come)
	s.come = make(chan struct{})
}

var errClosed = errors.New("read on a closed body")

func (s *sent) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, come, closed := min(len(p), s.left), s.come, s.closed
		s.left -= n
		s.mu.Unlock()
		if closed {
			return 0, errClosed
		}
		if n > 0 {
			return n, nil
		}
		<-come
	}
}

func (s *sent) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.send(0)
	return nil
}

func newServer(total *Total, most int) *server {
	s := &server{}
	s.b = &bounded{cluster: total.cluster(most), rt: roundTripper(func(*http.Request) (*http.Response, error) {
		body := &sent{come: make(chan struct{})}
		s.bodies = append(s.bodies, body)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body}, nil
	})}
	return s
}

// reading is an answer that is read in the background.
type reading struct {
	body  *sent
	close func() error
	err   chan error
}

// read asks for an answer of which n bytes come at once, and reads it until it fails or has n bytes.
func (s *server) read(ctx context.Context, t *testing.T, n int) *reading {
	t.Helper()
	resp, err := s.b.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil))
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{body: s.bodies[len(s.bodies)-1], close: resp.Body.Close, err: make(chan error, 1)}
	r.body.send(n)
	go func() {
		_, err := io.ReadFull(resp.Body, make([]byte, n))
		r.err <- err
	}()
	return r
}

// ends returns what came of reading; nothing else can happen any longer when it has not ended.
func (r *reading) ends(t *testing.T) (ended bool, err error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-r.err:
		return true, err
	default:
		return false, nil
	}
}

func (r *reading) isRead(t *testing.T, what string) {
	t.Helper()
	if ended, err := r.ends(t); !ended || err != nil {
		t.Errorf("%s: ended %v, %v", what, ended, err)
	}
}

func (r *reading) waits(t *testing.T, what string) {
	t.Helper()
	if ended, err := r.ends(t); ended {
		t.Errorf("%s ended: %v", what, err)
	}
}

func (r *reading) isRefused(t *testing.T, what string) {
	t.Helper()
	ended, err := r.ends(t)
	if !ended || err == nil || !strings.Contains(err.Error(), "whose cluster has the most of them") {
		t.Errorf("%s is not refused: ended %v, %v", what, ended, err)
	}
}

// TestAClusterIsOneForAllOfItsPools: that of the operator, and that of its page.
func TestAClusterIsOneForAllOfItsPools(t *testing.T) {
	total := newTotal(0)
	of := func(name string) *cluster { return Transport(nil, total, name).(*bounded).cluster }
	one, same, other := of("cluster-a"), of("cluster-a"), of("cluster-b")
	if nameless := of(""); one != same || one == other || nameless == of("") {
		t.Error("clusters are told apart by something else than their names")
	}
}

// TestAnAnswerWaitsForRoomAndGoesOn, as long as a cluster that holds more is being read.
func TestAnAnswerWaitsForRoomAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := newTotal(100)
		large, small := newServer(total, 90), newServer(total, 90)
		first := large.read(t.Context(), t, 80)
		first.isRead(t, "what there is room for")
		second := small.read(t.Context(), t, 40)
		second.waits(t, "a smaller one")
		if err := first.close(); err != nil {
			t.Fatal(err)
		}
		second.isRead(t, "when there is room")
		if err := second.close(); err != nil || total.now() != 0 || len(total.clusters) != 0 {
			t.Errorf("%d bytes of %d clusters are held at the end, %v", total.now(), len(total.clusters), err)
		}
	})
}

// TestTheClusterThatHoldsTheMostIsRefused and does not wait for those that hold less.
func TestTheClusterThatHoldsTheMostIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := newTotal(100)
		hostile, small := newServer(total, 90), newServer(total, 90)
		other := small.read(t.Context(), t, 30)
		other.isRead(t, "the small one")
		a := hostile.read(t.Context(), t, 50)
		a.isRead(t, "the first one")
		b := hostile.read(t.Context(), t, 30)
		b.isRefused(t, "the second one of the same cluster")
		for _, r := range []*reading{a, b, other} {
			_ = r.close()
		}
		if total.now() != 0 {
			t.Errorf("%d bytes are held at the end", total.now())
		}
	})
}

// TestHostileClustersThatSendNothingMoreHoldUpTheOthersOnce: each of them keeps to its own bound.
func TestHostileClustersThatSendNothingMoreHoldUpTheOthersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := newTotal(200)
		var hostile []*reading
		for range 2 {
			h := newServer(total, 96).read(t.Context(), t, 95)
			h.isRead(t, "a hostile one")
			hostile = append(hostile, h)
		}
		began := time.Now()
		var others []*reading
		for range 5 {
			others = append(others, newServer(total, 96).read(t.Context(), t, 20))
		}
		time.Sleep(2*patience + time.Second) //nolint:forbidigo // in the bubble, whose clock jumps
		for _, r := range others {
			r.isRead(t, "another cluster")
		}
		if waited := time.Since(began); waited > 2*patience+time.Second {
			t.Errorf("they waited %v", waited)
		}
		cut := 0
		for _, h := range hostile {
			h.body.send(1)
			if h.body.isClosed() {
				cut++
			}
		}
		if cut == 0 || total.now() > total.most {
			t.Errorf("%d hostile answers are cut off, %d bytes are held", cut, total.now())
		}
		for _, r := range append(hostile, others...) {
			_ = r.close()
		}
		if total.now() != 0 {
			t.Errorf("%d bytes are held at the end", total.now())
		}
	})
}

func (s *sent) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// TestAnAnswerThatIsCutOffSaysWhy to who reads it on.
func TestAnAnswerThatIsCutOffSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := newTotal(100)
		resp, err := newServer(total, 96).b.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/x", nil))
		if err != nil {
			t.Fatal(err)
		}
		a := resp.Body.(*answer)
		a.ReadCloser.(*sent).send(90)
		if _, err := io.ReadFull(a, make([]byte, 90)); err != nil {
			t.Fatal(err)
		}
		hanging := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1)) // of a server that sends nothing more
			hanging <- err
		}()
		other := newServer(total, 96).read(t.Context(), t, 20)
		other.waits(t, "another one")
		time.Sleep(patience) //nolint:forbidigo // in the bubble, whose clock jumps
		other.isRead(t, "another one, after the wait")
		if err := <-hanging; err == nil || !strings.Contains(err.Error(), "the answer of example.com to GET /x, whose cluster has the most of them") {
			t.Errorf("it ends with %v", err)
		}
		_ = other.close()
	})
}

// TestAWaitForRoomEndsWithItsRequest, and with the answer.
func TestAWaitForRoomEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := newTotal(100)
		large := newServer(total, 96).read(t.Context(), t, 90)
		large.isRead(t, "the large one")
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		timed, closed := newServer(total, 96).read(ctx, t, 20), newServer(total, 96).read(t.Context(), t, 20)
		closed.waits(t, "one that will be closed")
		if err := closed.close(); err != nil {
			t.Fatal(err)
		}
		if ended, err := closed.ends(t); !ended || err == nil && total.now() > 90+20 {
			t.Errorf("one that was closed: ended %v, %v, %d bytes are held", ended, err, total.now())
		}
		time.Sleep(patience / 2) //nolint:forbidigo // in the bubble, whose clock jumps
		if ended, err := timed.ends(t); !ended || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one whose request ended: ended %v, %v", ended, err)
		}
		_ = large.close()
		if total.now() != 0 {
			t.Errorf("%d bytes are held at the end", total.now())
		}
	})
}

// TestManyClustersThatAreReadAtOnceKeepToTheLimit: some are refused, none hangs, and nothing is held in the end.
func TestManyClustersThatAreReadAtOnceKeepToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters, size = 40, 1 << 20
		total := newTotal(4 << 20)
		var whole, refused, most int
		var mu sync.Mutex
		var all sync.WaitGroup
		for range clusters {
			s := newServer(total, 2<<20)
			all.Go(func() {
				for range 5 {
					r := s.read(t.Context(), t, size)
					err := <-r.err
					mu.Lock()
					if err == nil {
						whole++
					} else {
						refused++
					}
					most = max(most, total.now())
					mu.Unlock()
					_ = r.close()
				}
			})
		}
		all.Wait()
		if limit := total.most + clusters*maxRead; total.now() != 0 || most > limit || whole == 0 || whole+refused != 5*clusters {
			t.Errorf("%d whole, %d refused, at most %d of %d bytes, %d at the end", whole, refused, most, limit, total.now())
		}
	})
}

func (t *Total) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}
