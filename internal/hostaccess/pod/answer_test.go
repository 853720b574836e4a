package pod

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

// pipeConn is a session's stream as a connection.
type pipeConn struct {
	io.Reader
	io.Writer
}

func (pipeConn) Close() error                     { return nil }
func (pipeConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (pipeConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (pipeConn) SetDeadline(time.Time) error      { return nil }
func (pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (pipeConn) SetWriteDeadline(time.Time) error { return nil }

type oneConn struct {
	conns chan net.Conn
	ended <-chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}
func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// liar is the root of a worker, who answers in place of the agent: with what answer returns for a method.
func liar(t *testing.T, answer func(method string) string) executor {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answer(strings.TrimPrefix(r.URL.Path, agent.Prefix)))
	})}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return func(ctx context.Context, _, _ string, in io.Reader, out, _ io.Writer) error {
		conns := make(chan net.Conn, 1)
		conns <- pipeConn{in, out}
		serving.Go(func() { _ = server.Serve(oneConn{conns, ctx.Done()}) })
		<-ctx.Done()
		return ctx.Err()
	}
}

func hello(t *testing.T, protocol int) string {
	t.Helper()
	data, err := json.Marshal(agent.Answer{Hello: &agent.Hello{Protocol: protocol}})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAnAnswerIsBoundedByTheMemoryThatItTakes: an element of a list is two bytes of an answer.
func TestAnAnswerIsBoundedByTheMemoryThatItTakes(t *testing.T) {
	lies := `{"processes":[` + strings.Repeat("0,", 4_000_000) + `0]}`
	s, err := open(t.Context(), liar(t, func(method string) string {
		if method == agent.MethodHello {
			return hello(t, agent.Protocol)
		}
		return lies
	}), kubeSystem, "p")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = s.callOnce(t.Context(), agent.MethodProcesses, "id", nil)
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d KiB of answer: %d MiB allocated in all", len(lies)>>10, took>>20)
	if took > 256<<20 {
		t.Errorf("an answer of %d MiB took %d MiB", len(lies)>>20, took>>20)
	}
	if want := "would take more than 64 MiB of memory"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
}

// TestAnAnswerThatIsNoneIsAskedForOnce: it is the host's error, not a session that broke.
func TestAnAnswerThatIsNoneIsAskedForOnce(t *testing.T) {
	for name, answer := range map[string]string{
		"no JSON":               "",
		"another form":          `{"names":7}`,
		"too large in memory":   `{"processes":[` + strings.Repeat("0,", 2_000_000) + `0]}`,
		"nested to any depth":   strings.Repeat("[", 10_000),
		"a list that is an end": `{"names":["a"`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "cp-1")
			var asked atomic.Int64
			run := liar(t, func(method string) string {
				if method == agent.MethodHello {
					return hello(t, agent.Protocol)
				}
				asked.Add(1)
				return answer
			})
			h := c.open(func(o *Options) { o.exec, o.Look = run, 5*time.Second })[0]

			_, err := h.Processes(t.Context(), "kubelet")
			if _, is := errors.AsType[*hostaccess.UnreachableError](err); !is || !strings.Contains(err.Error(), "answer") {
				t.Errorf("the error is %v", err)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("it was asked for %d times", n)
			}
		})
	}
}

// TestASessionWithAnAgentOfNoUseIsOpenedOnce: another attempt would end as the first one did.
func TestASessionWithAnAgentOfNoUseIsOpenedOnce(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"another protocol": {hello(t, agent.Protocol+1), "speaks another protocol"},
		"no JSON":          {"<html>", "is no answer of an agent"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			run := liar(t, func(string) string {
				asked.Add(1)
				return c.answer
			})
			h := newCluster(t, "cp-1").open(func(o *Options) {
				o.exec, o.Start, o.Change, o.Look = run, time.Second, time.Second, 10*time.Second
			})[0]
			if n := asked.Load(); n != 1 {
				t.Errorf("it was opened %d times", n)
			}
			if _, err := h.Processes(t.Context(), "kubelet"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestTheWordsOfAnAnswerAreCut: root on a worker answers in place of the agent, and what it says goes into the journal.
func TestTheWordsOfAnAnswerAreCut(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	_, undecoded := decodeAnswer([]byte(`{"error":{"message":7,"is":"` + long + `"}}`))
	for name, err := range map[string]error{
		"an answer that cannot be read": undecoded,
		"a refusal to connect":          refusal(&http.Response{StatusCode: http.StatusBadGateway, Body: io.NopCloser(strings.NewReader(long))}),
		"a status":                      errors.New(oneLine("a\x1b[2Kb\n" + long)),
	} {
		if err == nil || len(err.Error()) > 2*maxWords || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	failing := &session{clock: remoteClock{}, client: &http.Transport{}}
	failing.client.RegisterProtocol("http", status500(long))
	if _, err := failing.callOnce(t.Context(), agent.MethodHello, "x", nil); err == nil || !strings.Contains(err.Error(), "status 500: xxx") || len(err.Error()) > 2*maxWords {
		t.Errorf("a call: %.200v", err)
	}
}

// status500 answers each request with an error of these words.
type status500 string

func (s status500) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}
