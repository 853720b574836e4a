package client

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/hostaccess/manual"
	"github.com/transplant-dev/transplant/internal/hostaccess/pod"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// Kinds of --host-access.
const (
	AccessPod    = "pod"
	AccessNone   = "none"
	AccessLocal  = "local:"
	AccessManual = manual.Prefix
)

// closeTimeout bounds the cleaning up at the end of a command.
const closeTimeout = 20 * time.Second

// HostOptions say how hosts are reached.
type HostOptions struct {
	Access, Image string
	Ttl           time.Duration
	// ControlPlane are the hosts that the operator says are of the control plane, where nothing else proves it.
	ControlPlane []string
	// ImageGiven reports whether the image was chosen by the user; nil where it was not.
	ImageGiven func() bool
}

// hostSession is what was opened to reach hosts, and has to be closed.
type hostSession struct {
	closing func(context.Context) error
	// Abort ends the command's context; nil in tests that run a command's parts.
	Abort context.CancelCauseFunc
	// steered is how many there are who turn signals into something gentler than the end of the command.
	mu      sync.Mutex
	steered int
	signals chan os.Signal
	ended   sync.WaitGroup
	// second ends the cleaning up, when the user asks to stop for the second time.
	second context.CancelFunc
	asked  time.Time
}

// again is how far apart two requests to stop are: a shell may send one twice.
const again = time.Second

// ErrAborted is the cause of a context that ended because the user interrupted the command.
var ErrAborted = fmt.Errorf("interrupted: %w", context.Canceled)

// openHosts opens the way to the hosts.
func (c *Client) openHosts(ctx context.Context) error {
	inner, manual, err := manual.ParseSpec(c.Host.Access)
	if err != nil {
		return fmt.Errorf("--host-access: %w", err)
	}
	selector, pods := strings.CutPrefix(inner, AccessPod)
	if !pods && c.Host.ImageGiven != nil && c.Host.ImageGiven() {
		return fmt.Errorf("--host-image would have no effect: --host-access=%s starts no pods; leave it out", c.Host.Access)
	}
	switch {
	case inner == "" || inner == AccessNone:
	case pods && (selector == "" || strings.HasPrefix(selector, ":")):
		c.Pods = true
		if err := c.openPods(ctx, strings.TrimPrefix(selector, ":")); err != nil {
			return fmt.Errorf("--host-access=%s: %w", c.Host.Access, err)
		}
	default:
		if c.Hosts, err = local.Open(inner); err != nil {
			return fmt.Errorf("--host-access: %w", err)
		}
	}
	if err := c.checkNamedHosts(ctx); err != nil {
		return err
	}
	c.Hosts = fault.Hosts(c.Hosts)
	if manual {
		return c.useManualHosts()
	}
	return nil
}

// checkHostAccess refuses a value of --host-access that names no way to hosts.
func checkHostAccess(access string) error {
	inner, _, err := manual.ParseSpec(access)
	if err == nil && inner != "" && inner != AccessNone && inner != AccessPod && !strings.HasPrefix(inner, AccessPod+":") {
		_, err = local.Open(inner)
	}
	return err
}

// checkNamedHosts refuses a name that is none: the operator would take the host for named. A host and its Node may have
// different names, and either is one: a DaemonSet finds Nodes, and messages name these.
func (c *Client) checkNamedHosts(ctx context.Context) error {
	for _, name := range c.Host.ControlPlane {
		if slices.ContainsFunc(c.Hosts, func(h hostaccess.Host) bool { return h.Name() == name }) {
			continue
		}
		_, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf(
				"--%s: --host-access reaches no host of the name %q, and the cluster has no such Node",
				hostproof.Flag,
				name,
			)
		} else if err != nil {
			return fmt.Errorf("--%s: getting Node %q: %s", hostproof.Flag, name, mask.Error(err))
		}
	}
	return nil
}

var imageDigest = regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)

// JudgeHostImage returns what to tell about the image of the pods, which are root on their hosts; empty for one by
// digest. A digest that is none is refused before a pod waits for it.
func JudgeHostImage(image string) (note string, err error) {
	switch {
	case imageDigest.MatchString(image):
		return "", nil
	case strings.Contains(image, "@"):
		return "", fmt.Errorf(
			"--host-image=%s: a digest is @sha256: and 64 hexadecimal digits: take it from the registry or from the release",
			image,
		)
	}
	return fmt.Sprintf("the pods that reach hosts run image %s by its tag, and a tag may be moved; "+
		"to run what you have checked, name it with --host-image=NAME@sha256:DIGEST", image), nil
}

func (c *Client) openPods(ctx context.Context, selector string) (err error) {
	note, err := JudgeHostImage(c.Host.Image)
	if err != nil {
		return err
	}
	if note != "" {
		c.Narrate("%s", note)
	}
	c.Narrate("hosts are reached through pods: context %s · %s", wording.OrDash(c.Context), mask.Server(c.Config.Host))
	c.Session.watch()
	klog.SetLogger(logr.Discard()) // the library complains of each session that ends, which is told where it matters
	c.Hosts, c.Session.closing, err = pod.Open(ctx, pod.Options{
		Kube:     c.Kube,
		Config:   c.Config,
		Image:    c.Host.Image,
		Selector: selector,
		User:     UserName(),
		TTL:      c.Host.Ttl,
		Linger:   10 * time.Second,
		Tell:     func(message string) { c.Narrate("%s", message) },
	})
	return err
}

// needs are the rights that the commands that change take here.
func (c *Client) needs(needs []collect.Need) []collect.Need {
	if !c.Pods {
		return needs
	}
	return permission.WithPodAccess(needs)
}

// watch ends the command in order when the user interrupts it, so that its pods are taken away. A command that turns
// signals into something else says so.
func (s *hostSession) watch() {
	if s.Abort == nil || s.signals != nil {
		return
	}
	s.signals = make(chan os.Signal, 4)
	signal.Notify(s.signals, HandledSignals()...)
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
				s.Abort(ErrAborted)
			}
			s.mu.Unlock()
		}
	})
}

// Steer reports whether signals mean something else until the returned function is called.
func (s *hostSession) Steer() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steered++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.steered--
	}
}

// Close takes away what was opened.
func (c *Client) Close(ctx context.Context) {
	s := &c.Session
	if s.closing != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		s.mu.Lock()
		s.second = cancel
		s.mu.Unlock()
		if err := s.closing(ctx); err != nil {
			c.Narrate("%v", err)
		}
		cancel()
	}
	if s.signals != nil {
		signal.Stop(s.signals)
		close(s.signals)
		s.ended.Wait()
	}
}

// useManualHosts makes the hosts such that people make the changes.
func (c *Client) useManualHosts() error {
	dir, err := c.stateHome()
	if err != nil {
		return fmt.Errorf("finding a place for the files of --host-access=manual: %w; name one with --state-dir", err)
	}
	out, unattended := c.Instructions()
	c.Hosts = manual.New(c.Hosts, manual.Options{Out: out, StateDir: dir, Unattended: unattended})
	return nil
}

// HandledSignals are the signals that stop a command in order.
func HandledSignals() []os.Signal {
	out := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		out = append(out, syscall.SIGHUP)
	}
	return out
}
