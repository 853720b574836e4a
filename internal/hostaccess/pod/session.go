package pod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/boottime"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
	"github.com/transplant-dev/transplant/internal/jsonweight"
	"github.com/transplant-dev/transplant/internal/visible"
)

const (
	// quiet is after how much silence a session is asked whether it is still there, and how long that may take. An API
	// server that was frozen, or a machine that was cut off, closes nothing.
	quiet = 4 * time.Second
	// helloTimeout bounds the opening of a session: an exec, and the relay's start on a busy machine.
	helloTimeout = 15 * time.Second
)

// errBroken says that a session ended; what was asked through it may or may not have been done.
var errBroken = errors.New("the session with the pod broke")

// session is one exec session with an agent, and the HTTP/2 connection in it.
type session struct {
	client *http.Transport
	clock  remoteClock // of the agent
	cancel context.CancelFunc
	part   func() // closes the connection, whatever the exec does
	ended  chan struct{}
	mu     sync.Mutex
	err    error // why it ended
}

// open starts a session and waits for the agent's first answer.
func open(ctx context.Context, run executor, namespace, pod string) (*session, error) {
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	conn, far := newConn(writing)
	s := &session{
		cancel: cancel,
		part:   far.close,
		ended:  make(chan struct{}),
		clock:  remoteClock{now: boottime.Now},
	}
	go func() {
		said := &tail{}
		err := run(living, namespace, pod, far.in, far.out, said)
		s.markEnded(err, said.String())
		far.close()
	}()
	once := make(chan net.Conn, 1)
	once <- conn
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	s.client = &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: answerlimit.MaxHeader,
		HTTP2: &http.HTTP2Config{SendPingTimeout: quiet, PingTimeout: quiet, MaxReceiveBufferPerStream: 1 << 20},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, errBroken
			}
		},
	}
	hello, stop := context.WithTimeout(ctx, helloTimeout)
	defer stop()
	answer, err := s.callOnce(hello, agent.MethodHello, "hello", nil)
	if err == nil && (answer.Hello == nil || answer.Hello.Protocol != agent.Protocol) {
		err = errOtherVersion
	}
	if err != nil {
		s.close()
		if isFinal(err) {
			return nil, err
		}
		if hello.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer in %s", helloTimeout)
		}
		return nil, s.why(err)
	}
	return s, nil
}

var errOtherVersion = errors.New(
	"the agent in the image speaks another protocol: name the image of this program's version with --host-image",
)

// errUnreadable says that what came is no answer of an agent. Asked again, it would be none either.
var errUnreadable = errors.New("it is no answer of an agent: look at the pod, its image and the host")

// isFinal reports whether another session with the same pod would end as this one did.
func isFinal(err error) bool { return errors.Is(err, errOtherVersion) || errors.Is(err, errUnreadable) }

// why prefers what the session ended with to what came of it.
func (s *session) why(err error) error {
	select {
	case <-s.ended:
	case <-time.After(200 * time.Millisecond): // the reason comes right behind the end of the stream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		return s.err
	}
	return err
}

func (s *session) markEnded(err error, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case err == nil && said == "":
		s.err = errBroken
	case err == nil:
		s.err = fmt.Errorf("%w: %s", errBroken, said)
	case said != "":
		s.err = fmt.Errorf("%w: %s", err, said)
	default:
		s.err = err
	}
	close(s.ended)
}

// isOver reports whether nothing can be asked through it any longer.
func (s *session) isOver() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *session) close() {
	s.part()
	s.cancel()
	s.client.CloseIdleConnections()
}

// maxAnswer bounds, in bytes, what a pod answers, and what that takes when it is decoded: twice the largest file, as
// base64. A process with root on the host can answer in place of the agent.
const maxAnswer = 64 << 20

// callOnce asks once. An error that is errBroken says nothing of what was done.
func (s *session) callOnce(ctx context.Context, method, id string, body []byte) (agent.Answer, error) {
	var out agent.Answer
	if body == nil {
		body = []byte("{}")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+agent.Prefix+method, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set(agent.CallHeader, id)
	resp, err := s.client.RoundTrip(req)
	if err != nil {
		return out, s.broken(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return out, s.broken(ctx, err)
	}
	if len(data) > maxAnswer {
		return out, fmt.Errorf("asking the agent: its answer has more than %d MiB: %w", maxAnswer>>20, errUnreadable)
	}
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("asking the agent: status %d: %s", resp.StatusCode, oneLine(string(data)))
	}
	if out, err = decodeAnswer(data); err != nil {
		return out, fmt.Errorf("asking the agent: %w", err)
	}
	s.clock.learn(out.Hello)
	return out, nil
}

// decodeAnswer reads an answer, unless it would take more memory than one of an agent.
func decodeAnswer(data []byte) (agent.Answer, error) {
	_, err := jsonweight.Of(data, reflect.TypeFor[agent.Answer](), maxAnswer)
	if _, heavy := errors.AsType[*jsonweight.TooHeavyError](err); heavy {
		err = fmt.Errorf("its answer would take more than %d MiB of memory", maxAnswer>>20)
	}
	var out agent.Answer
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return agent.Answer{}, fmt.Errorf("%s: %w", oneLine(err.Error()), errUnreadable)
	}
	return out, nil
}

// maxWords bounds, in bytes, what an error has of an answer. A process with root on a worker writes it, and it goes
// into the journal. A record that is larger than a ConfigMap would end the change of each other node.
const maxWords = 4 << 10

// oneLine are an answer's own words in one line.
func oneLine(s string) string { return visible.Line(visible.Cut(strings.TrimSpace(s), maxWords)) }

func (s *session) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", errBroken, s.why(err))
}

// dial opens a tunnel to an address on the host.
func (s *session) dial(ctx context.Context, network, address string) (net.Conn, error) {
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	body, feed := io.Pipe()
	query := url.Values{"network": {network}, "address": {address}}
	req, err := http.NewRequestWithContext(
		living,
		http.MethodPost,
		"http://agent"+agent.Prefix+agent.MethodDial+"?"+query.Encode(),
		body,
	)
	if err == nil {
		var resp *http.Response
		if resp, err = s.client.RoundTrip(req); err == nil {
			if resp.StatusCode == http.StatusOK {
				stop()
				return tunnel(resp.Body, feed, cancel), nil
			}
			err = refusal(resp)
		} else {
			err = s.broken(ctx, err)
		}
	}
	stop()
	cancel()
	_ = feed.Close()
	return nil, err
}

// refusal is why the agent could not connect.
func refusal(resp *http.Response) error {
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	var out agent.Answer
	if err := json.Unmarshal(data, &out); err == nil && out.Error != nil {
		return out.Error.Err()
	}
	return fmt.Errorf("the agent answered with status %d: %s", resp.StatusCode, oneLine(string(data)))
}

// tunnel makes a connection of a request and its answer: one with deadlines, which these have not.
func tunnel(from io.ReadCloser, to *io.PipeWriter, cancel func()) net.Conn {
	near, far := net.Pipe()
	var once sync.Once
	end := func() { once.Do(func() { _ = far.Close(); _ = to.Close(); cancel(); _ = from.Close() }) }
	go func() {
		_, _ = io.Copy(to, far)
		end()
	}()
	go func() {
		_, _ = io.Copy(far, from)
		end()
	}()
	return near
}

// tail keeps the end of what a relay complains of.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-1024):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(t.text)), "error:"))
}
