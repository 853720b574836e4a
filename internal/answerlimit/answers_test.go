package answerlimit

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	serverspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// blanks are any number of them: a reader of JSON keeps each until the value ends.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = " \n"[i%2]
	}
	return len(p), nil
}

const emptyNodes = `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]`

// serve answers with what write writes, until that is done or the client has gone.
func serve(t *testing.T, write func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// boundedClient asks a server as transplant does a user cluster.
func boundedClient(t *testing.T, s *httptest.Server) *kubernetes.Clientset {
	t.Helper()
	c := &rest.Config{Host: s.URL, QPS: -1}
	Config(c)
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return kube
}

// TestAnAnswerOfAUserClusterIsReadToABound: a user cluster must not fill the memory of the operator, which works for all.
func TestAnAnswerOfAUserClusterIsReadToABound(t *testing.T) {
	huge := func(w io.Writer) {
		_, _ = io.WriteString(w, emptyNodes)
		_, _ = io.Copy(w, io.LimitReader(blanks{}, 2*maxAnswer))
		_, _ = io.WriteString(w, "}")
	}
	for name, write := range map[string]func(w http.ResponseWriter, r *http.Request){
		"plain": func(w http.ResponseWriter, _ *http.Request) { huge(w) },
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			huge(w)
		},
		"compressed unasked": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			huge(z)
			_ = z.Close()
		},
		"compressed where that is asked for": func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer func() { _ = z.Close() }()
				huge(z)
				return
			}
			huge(w)
		},
	} {
		s := serve(t, write)
		kube := boundedClient(t, s)
		limit := "32 MiB"
		if name == "an error" {
			limit = "64 KiB"
		}
		_, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 500})
		if err == nil {
			t.Errorf("%s: an answer of %d bytes is taken", name, 2*maxAnswer)
		} else if want := strings.TrimPrefix(s.URL, "http://") + " to GET /api/v1/nodes has more than " + limit; !strings.Contains(err.Error(), want) &&
			name != "compressed unasked" {
			t.Errorf("%s: the error does not say %q: %v", name, want, err)
		}
		if name != "an error" {
			continue
		}
		if _, err := kube.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "more than 64 KiB") {
			t.Errorf("a watch that is refused at length: %v", err)
		}
	}
}

// TestAWatchIsNotCutAndItsEventsAreBounded: it lasts for hours, and each of its events is in memory alone.
func TestAWatchIsNotCutAndItsEventsAreBounded(t *testing.T) {
	const n, size = 40, 1 << 20
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range n {
			node := corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
			node.Annotations = map[string]string{"a": strings.Repeat("{\"", size/4)}
			data, err := json.Marshal(map[string]any{"type": "ADDED", "object": node})
			if err != nil {
				panic(err)
			}
			_, _ = w.Write(append(data, '\n'))
		}
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"blanks"}`)
		_, _ = io.Copy(w, io.LimitReader(blanks{}, 2*maxEvent))
		_, _ = io.WriteString(w, "}}\n")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := boundedClient(t, s).CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	seen := 0
	for event := range watch.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && node.Name == fmt.Sprint(seen) {
			seen++
		} else if ok {
			t.Errorf("event %d is of node %s", seen, node.Name)
		}
	}
	if seen != n {
		t.Errorf("%d events came, want %d", seen, n)
	}
}

type answers string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{}
	if r.URL.Query().Has("watch") {
		header.Set("Content-Type", jsonType)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(string(a))))}, nil
}

func TestWhatIsReadOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name, url, answer string
		want              int // bytes that are read
		whole             bool
	}{
		{"as much as may be", "/x", strings.Repeat("x", 40), 40, true},
		{"one more", "/x", strings.Repeat("x", 41), 40, false},
		{"events without an end", "/x?watch=1", strings.Repeat(`{"a":1}`, 30), 210, true},
		{"an event that is too large", "/x?watch=1", `{"a":1}{"b":"` + strings.Repeat("x", 20) + `"}`, 27, false},
		{"line breaks in an event", "/x?watch=1", `{"a":1}{` + strings.Repeat("\n", 30) + "}", 27, false},
		{"blanks between events", "/x?watch=1", `{"a":1}` + strings.Repeat(" ", 21) + "{}", 27, false},
		{"braces in a text", "/x?watch=1", `{"a":"` + strings.Repeat(`}\"{`, 6) + `"}`, 20, false},
		{"brackets", "/x?watch=1", strings.Repeat(`{"a":[[1],{}]}`, 10), 140, true},
	} {
		req := httptest.NewRequest(http.MethodGet, c.url, nil)
		resp, err := (&bounded{rt: answers(c.answer), answer: 40, event: 20}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		if len(data) != c.want || (err == nil) != c.whole {
			t.Errorf("%s: %d bytes were read and %v, want %d", c.name, len(data), err, c.want)
		}
		if _, again := resp.Body.Read(make([]byte, 1)); err != nil && !errors.Is(again, err) {
			t.Errorf("%s: it is gone on with after it was refused: %v", c.name, again)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAConnectionThatIsTakenOverIsLeftAlone where that was asked for: its body is written to as well.
func TestAConnectionThatIsTakenOverIsLeftAlone(t *testing.T) {
	body := io.NopCloser(strings.NewReader(""))
	rt := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: body}, nil
	})
	req := httptest.NewRequest(http.MethodGet, "/x", nil)
	req.Header.Set("Upgrade", "SPDY/3.1")
	resp, err := Transport(rt, nil, "").RoundTrip(req)
	if err != nil || resp.Body != body {
		t.Errorf("the body is %T, %v", resp.Body, err)
	}
}

// TestAConnectionIsNotTakenOverUnasked: an API server that answers so sends bytes without end, or none at all, and no
// context ends that.
func TestAConnectionIsNotTakenOverUnasked(t *testing.T) {
	for name, bound := range map[string]func(*rest.Config){"all answers": Config, "lists alone": Lists} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nx"))
				}
				if err == nil { // silent from here on, until the client leaves
					_, err = conn.Read(make([]byte, 1))
					_ = conn.Close()
				}
				ended <- err
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1}
			bound(config)
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "another protocol") {
				t.Errorf("the error is %v", err)
			}
			if err := <-ended; !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// TestASessionWithAPodMayTakeTheConnection: client-go's transport of SPDY asks for it with a header that it puts on a request of its own, below this one.
func TestASessionWithAPodMayTakeTheConnection(t *testing.T) {
	const pod = "/api/v1/namespaces/kube-system/pods/look/"
	for path, allowed := range map[string]bool{
		pod + "exec": true, pod + "portforward": true, "/clusters/a" + pod + "exec": true,
		pod + "log": false, "/api/v1/namespaces/exec": false, "/api/v1/namespaces/pods/pods/exec": false,
	} {
		for name, bound := range map[string]func(*rest.Config){"all answers": Config, "lists alone": Lists} {
			t.Run(name+path, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set(httpstream.HeaderProtocolVersion, "v4.channel.k8s.io")
					if conn := serverspdy.NewResponseUpgrader().UpgradeResponse(w, r, httpstream.NoOpNewStreamHandler); conn != nil {
						<-conn.CloseChan()
					}
				}))
				defer server.Close()
				config := &rest.Config{Host: server.URL}
				bound(config)
				transport, upgrader, err := spdy.RoundTripperFor(config)
				if err != nil {
					t.Fatal(err)
				}
				at, err := url.Parse(server.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at).Dial("v4.channel.k8s.io")
				switch {
				case allowed && err != nil:
					t.Errorf("refused: %v", err)
				case !allowed && (err == nil || !strings.Contains(err.Error(), "another protocol")):
					t.Errorf("the error is %v", err)
				}
				if err == nil {
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// emptyPage is an empty page that another one follows, for ever.
const emptyPage = `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[]}`

// TestAListWithoutEndEnds: who runs the API server says whether another page comes.
func TestAListWithoutEndEnds(t *testing.T) {
	paged := roundTripper(func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(emptyPage))}, nil
	})
	for _, c := range []struct {
		bound func(*rest.Config)
		pages int
	}{{Config, maxPages}, {Lists, maxOwnPages}} {
		config := &rest.Config{Host: "https://x", QPS: -1, Transport: paged}
		c.bound(config)
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a list that is begun again is another one
			opts := metav1.ListOptions{Limit: 500}
			for page := 1; ; page++ {
				list, err := kube.CoreV1().Nodes().List(t.Context(), opts)
				if err != nil {
					if want := fmt.Sprintf("GET /api/v1/nodes has more than %d pages", c.pages); page != c.pages+1 || !strings.Contains(err.Error(), want) {
						t.Errorf("page %d: %v, want %q", page, err, want)
					}
					break
				}
				if page > c.pages {
					t.Fatalf("page %d is taken", page)
				}
				opts.Continue = list.Continue
			}
		}
	}
}

// TestThePagesOfAListAreBoundedTogether, each list by itself.
func TestThePagesOfAListAreBoundedTogether(t *testing.T) {
	b := &bounded{rt: answers(strings.Repeat("x", 40)), answer: 40, lists: newLists(100, 0, 10)}
	read := func(url string) error {
		resp, err := b.RoundTrip(httptest.NewRequest(http.MethodGet, url, nil))
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	for _, c := range []struct{ url, says string }{
		{"/pods?limit=5", ""},
		{"/pods?limit=5&continue=a", ""},
		{"/nodes?limit=5", ""},
		{"/nodes?limit=5&continue=a", ""},
		{"/pods?limit=5&continue=b", "the list of  at GET /pods has more than 0 MiB in its pages"},
		{"/pods?limit=5&continue=c", "in its pages"},
		{"/pods?limit=5", ""},
		{"/pods?limit=5&continue=a", ""},
		{"/pods/a", ""}, {"/pods/a", ""}, {"/pods/a", ""},
	} {
		err := read(c.url)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.url, err, c.says)
		}
	}
}

// fullPages answers every list of nodes with a page that takes weight in memory, and says that another one follows.
func fullPages(t *testing.T, weight int64) *kubernetes.Clientset {
	t.Helper()
	const element = 600 // an empty node takes more
	page := repeated(`{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[`, `{}`, int(weight/element), `]}`)
	return boundedClient(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
}

// TestThePagesOfAListAreBoundedByTheMemoryThatTheyTake: a snapshot keeps the objects of all of them, and the memory of an
// operator is that of all clusters.
func TestThePagesOfAListAreBoundedByTheMemoryThatTheyTake(t *testing.T) {
	kube := fullPages(t, 12<<20)
	for range 2 { // a list that is begun again is another one
		opts := metav1.ListOptions{Limit: 500}
		for page := 1; ; page++ {
			list, err := kube.CoreV1().Nodes().List(t.Context(), opts)
			if err != nil {
				const want = "GET /api/v1/nodes would take more than 96 MiB of memory together"
				if page == 1 || !strings.Contains(err.Error(), want) {
					t.Errorf("page %d: %v, want %q", page, err, want)
				}
				break
			}
			if page > 8 {
				t.Fatalf("page %d of 12 MiB is taken", page)
			}
			opts.Continue = list.Continue
		}
	}
}

// TestWhatOneReaderKeepsIsBoundedTogether: each of the lists of a snapshot would do alone.
func TestWhatOneReaderKeepsIsBoundedTogether(t *testing.T) {
	kube := fullPages(t, 12<<20)
	list := func(ctx context.Context) error {
		_, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 500})
		return err
	}
	for range 2 {
		ctx, done := Keep(t.Context())
		defer done(0)
		n := 0
		err := list(ctx)
		for ; err == nil && n < 14; n++ {
			err = list(ctx)
		}
		if n == 0 || err == nil || !strings.Contains(err.Error(), "for the same look would take more than 160 MiB of memory together") {
			t.Errorf("after %d lists of 12 MiB: %v", n, err)
		}
	}
	for range 14 {
		if err := list(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersThatAreReadAtTheSameTimeAreBoundedTogether: each of them is in memory until it has ended.
func TestAnswersThatAreReadAtTheSameTimeAreBoundedTogether(t *testing.T) {
	b := &bounded{rt: answers(strings.Repeat("x", 40)), answer: 40, lists: newLists(1000, 0, 10), cluster: newTotal(0).cluster(100)}
	var open []*http.Response
	next := func() error {
		resp, err := b.RoundTrip(httptest.NewRequest(http.MethodGet, "/x", nil))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
		_, err = io.ReadAll(resp.Body)
		return err
	}
	for range 2 {
		if err := next(); err != nil {
			t.Fatal(err)
		}
	}
	if err := next(); err == nil || !strings.Contains(err.Error(), "at the same time have more than 0 MiB") {
		t.Errorf("a third one: %v", err)
	}
	for range 2 { // what is closed twice is free once
		if err := open[0].Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := next(); err != nil {
		t.Errorf("when one is closed: %v", err)
	}
	if err := next(); err == nil {
		t.Error("there is room for more than is free")
	}
}
