package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/hostaccess/manual"
	"github.com/transplant-dev/transplant/internal/hostaccess/pod"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// Kinds of --host-access.
const (
	accessPod    = "pod"
	accessNone   = "none"
	accessLocal  = "local:"
	accessManual = manual.Prefix
)

// closeTimeout bounds the cleaning up at the end of a command.
const closeTimeout = 20 * time.Second

// hostFlags say how hosts are reached.
type hostFlags struct {
	access, image string
	ttl           time.Duration
}

func (h *hostFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&h.access, "host-access", accessPod, "how hosts are reached: pod[:LABEL-SELECTOR] (a pod on each Linux node, or each that has the labels), none (the API alone), local:DIR (a directory for each host in DIR), "+
		"local:NAME=DIR,... or manual[:WAY] (read through WAY, pod by default; changes are printed for you to make)")
	f.StringVar(&h.image, "host-image", "ghcr.io/transplant-dev/transplant:"+version, "image of the pods of --host-access=pod: this program as /transplant, and nothing else")
	f.DurationVar(&h.ttl, "host-ttl", 10*time.Minute, "how long the pods of --host-access=pod stay when this program is killed")
	_ = f.MarkHidden("host-ttl") // registered above
}

// completeHostAccess are the values of --host-access, for the shell.
func completeHostAccess(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{
		accessPod + "\ta pod on each Linux node", accessPod + ":\ta pod on each node with these labels", accessNone + "\tthe API alone",
		accessLocal + "\tdirectories of this machine", accessManual + "\tread through pods, change by hand",
	}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// hostSession is what was opened to reach hosts, and has to be closed.
type hostSession struct {
	closing func(context.Context) error
	// abort ends the command's context; nil in tests that run a command's parts.
	abort context.CancelCauseFunc
	// steered is how many there are who turn signals into something gentler than the end of the command.
	mu      sync.Mutex
	steered int
	signals chan os.Signal
	ended   sync.WaitGroup
	// second ends the cleaning up, when somebody asks to stop for the second time.
	second context.CancelFunc
	asked  time.Time
}

// again is how far apart two requests to stop are: a shell may send one twice.
const again = time.Second

var errAborted = fmt.Errorf("interrupted: %w", context.Canceled)

// openHosts opens the way to the hosts.
func (c *connection) openHosts(ctx context.Context) error {
	inner, manual, err := manual.ParseSpec(c.host.access)
	if err != nil {
		return fmt.Errorf("--host-access: %w", err)
	}
	selector, pods := strings.CutPrefix(inner, accessPod)
	if !pods && c.given != nil && c.given.Changed("host-image") {
		return fmt.Errorf("--host-image would have no effect: --host-access=%s starts no pods; leave it out", c.host.access)
	}
	switch {
	case inner == "" || inner == accessNone:
	case pods && (selector == "" || strings.HasPrefix(selector, ":")):
		c.pods = true
		if err := c.openPods(ctx, strings.TrimPrefix(selector, ":")); err != nil {
			return fmt.Errorf("--host-access=%s: %w", c.host.access, err)
		}
	default:
		if c.hosts, err = local.Open(inner); err != nil {
			return fmt.Errorf("--host-access: %w", err)
		}
	}
	c.hosts = testHosts(c.hosts)
	if manual {
		return c.manually()
	}
	return nil
}

var imageDigest = regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)

// judgeHostImage returns what to tell about the image of the pods, which are root on their hosts; empty for one by digest. A digest that is
// none is refused before a pod waits for it.
func judgeHostImage(image string) (note string, err error) {
	switch {
	case imageDigest.MatchString(image):
		return "", nil
	case strings.Contains(image, "@"):
		return "", fmt.Errorf("--host-image=%s: a digest is @sha256: and 64 hexadecimal digits: take it from the registry or from the release", image)
	}
	return fmt.Sprintf("the pods that reach hosts run image %s by its tag, and a tag may be moved: "+
		"to run what you have checked, name it with --host-image=NAME@sha256:DIGEST", image), nil
}

func (c *connection) openPods(ctx context.Context, selector string) (err error) {
	note, err := judgeHostImage(c.host.image)
	if err != nil {
		return err
	}
	if note != "" {
		c.narrate("%s", note)
	}
	c.session.watch()
	klog.SetLogger(logr.Discard()) // the library complains of each session that ends, which is told where it matters
	c.hosts, c.session.closing, err = pod.Open(ctx, pod.Options{
		Kube: c.kube, Config: c.config, Image: c.host.image, Selector: selector, User: userName(), TTL: c.host.ttl, Linger: 10 * time.Second,
		Tell: func(message string) { c.narrate("%s", message) },
	})
	return err
}

// needs are the rights that the commands that change take here.
func (c *connection) needs(needs []collect.Need) []collect.Need {
	if !c.pods {
		return needs
	}
	return permission.WithPodAccess(needs)
}

// watch ends the command in order when somebody interrupts it, so that its pods are taken away. A command that turns signals into something else says so.
func (s *hostSession) watch() {
	if s.abort == nil || s.signals != nil {
		return
	}
	s.signals = make(chan os.Signal, 4)
	signal.Notify(s.signals, heeded()...)
	s.ended.Go(func() {
		for range s.signals {
			s.mu.Lock()
			first := s.asked.IsZero() || time.Since(s.asked) < again
			if s.asked.IsZero() {
				s.asked = time.Now()
			}
			switch {
			case s.second != nil && !first:
				s.second()
			case s.second == nil && s.steered == 0:
				s.abort(errAborted)
			}
			s.mu.Unlock()
		}
	})
}

// steer tells that signals mean something else until the returned function is called.
func (s *hostSession) steer() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steered++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.steered--
	}
}

// close takes away what was opened.
func (c *connection) close(ctx context.Context) {
	s := &c.session
	if s.closing != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		s.mu.Lock()
		s.second = cancel
		s.mu.Unlock()
		if err := s.closing(ctx); err != nil {
			c.narrate("%v", err)
		}
		cancel()
	}
	if s.signals != nil {
		signal.Stop(s.signals)
		close(s.signals)
		s.ended.Wait()
	}
}

// transport is how a manager on a host is asked: through the host where that can be done, since managers listen on 127.0.0.1. TLS is end to end: what proves
// who asks never is on the host. A manager in a pod with a network of its own is asked through the API server.
func (c *connection) transport(host string) *http.Transport {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // managers sign their own certificate; see scrape
	if namespace, name, ok := workloads.PodOfPlace(host); ok {
		dial := portForward(c.config, c.kube, namespace)
		t.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, name, address) }
	}
	for _, h := range c.hosts {
		if d, ok := h.(hostaccess.Dialer); ok && h.Name() == host {
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := d.DialContext(ctx, network, address)
				if err != nil && !errors.Is(err, context.Canceled) {
					err = fmt.Errorf("from host %s: %w", host, err)
				}
				return conn, err
			}
		}
	}
	return t
}

// manually makes the hosts such that people make the changes.
func (c *connection) manually() error {
	dir, err := c.stateHome()
	if err != nil {
		return fmt.Errorf("finding a place for the files of --host-access=manual: %w; name one with --state-dir", err)
	}
	c.hosts = manual.New(c.hosts, manual.Options{Out: c.err, StateDir: dir, Unattended: !isTerminal(c.err)})
	return nil
}
