package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// prober runs the probes of one process: first the startup probe until it passes, then liveness and readiness side by
// side.
type prober struct {
	pod       *pod
	container *container
	proc      *process
	host      string // where a probe without a host goes
	grace     time.Duration
	cap       time.Duration
	started   bool // the startup probe passed under an earlier kubelet
	log       *slog.Logger
}

// run probes until the process or ctx ends.
func (p *prober) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	spec := p.container.spec
	if s := spec.StartupProbe; s != nil && !p.started {
		passed := false
		p.loop(ctx, s, func(ok bool, err error, failing time.Duration) bool {
			if !ok && failing >= patience(s) {
				p.log.Warn("Startup probe did not pass", "pod", p.pod.static.key(), "container", spec.Name, "err", err)
				p.proc.stop(stopStartup, p.grace)
				return false
			}
			passed = ok
			return !ok
		})
		if !passed {
			return
		}
		p.record(func(c *container) { c.started, c.ready = true, spec.ReadinessProbe == nil })
	}
	live := make(chan struct{})
	go func() {
		defer close(live)
		if l := spec.LivenessProbe; l != nil {
			p.loop(ctx, l, func(ok bool, err error, failing time.Duration) bool {
				if ok || failing < patience(l) {
					return true
				}
				p.log.Warn("Liveness probe did not pass", "pod", p.pod.static.key(), "container", spec.Name, "err", err)
				p.proc.stop(stopLiveness, p.grace)
				return false
			})
		}
	}()
	if r := spec.ReadinessProbe; r != nil {
		p.loop(ctx, r, func(ok bool, _ error, failing time.Duration) bool {
			if ok || failing >= patience(r) {
				p.record(func(c *container) { c.ready = ok })
			}
			return true
		})
	}
	<-live
}

// record changes the container's state if its process is still the one that was probed.
func (p *prober) record(change func(*container)) {
	p.pod.mu.Lock()
	defer p.pod.mu.Unlock()
	c := p.container
	before := [2]bool{c.started, c.ready}
	if c.proc != p.proc || !p.proc.running() {
		return
	}
	change(c)
	if before != [2]bool{c.started, c.ready} {
		p.pod.poke()
	}
}

// loop probes at the probe's period and hands each outcome to judge, with the time since the first failure in a row,
// until judge returns false or nothing is left to probe.
func (p *prober) loop(
	ctx context.Context,
	probe *corev1.Probe,
	judge func(ok bool, err error, failing time.Duration) bool,
) {
	period := p.capped(probe.PeriodSeconds, 10)
	first := time.Until(p.proc.started.Add(p.capped(probe.InitialDelaySeconds, 0)))
	timer := time.NewTimer(max(0, first))
	defer timer.Stop()
	var since time.Time // of the first failure in a row
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.proc.done:
			return
		case <-timer.C:
		}
		timer.Reset(period)
		err := p.once(ctx, probe)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if err == nil {
			since = time.Time{}
		} else if since.IsZero() {
			since = now.Add(-period) // the time that this failure stands for
		}
		failing := time.Duration(0)
		if err != nil {
			failing = now.Sub(since)
		}
		if !judge(err == nil, err, failing) {
			return
		}
	}
}

func (p *prober) capped(seconds int32, byDefault time.Duration) time.Duration {
	d := time.Duration(seconds) * time.Second
	if d == 0 {
		d = byDefault * time.Second
	}
	if p.cap > 0 {
		d = min(d, p.cap)
	}
	return d
}

// patience is how long a probe may go on to fail: its threshold times its own period, whatever the profile.
func patience(probe *corev1.Probe) time.Duration {
	period, threshold := probe.PeriodSeconds, probe.FailureThreshold
	if period == 0 {
		period = 10
	}
	if threshold == 0 {
		threshold = 3
	}
	return time.Duration(period) * time.Duration(threshold) * time.Second
}

// once probes once and returns why the probe did not pass.
func (p *prober) once(ctx context.Context, probe *corev1.Probe) error {
	timeout := time.Duration(max(1, probe.TimeoutSeconds)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if t := probe.TCPSocket; t != nil {
		address, err := p.address(t.Host, t.Port)
		if err != nil {
			return err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return p.get(ctx, probe.HTTPGet)
}

func (p *prober) get(ctx context.Context, action *corev1.HTTPGetAction) error {
	address, err := p.address(action.Host, action.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if action.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		scheme+"://"+address+"/"+strings.TrimPrefix(action.Path, "/"),
		nil,
	)
	if err != nil {
		return fmt.Errorf("building probe request: %w", err)
	}
	req.Header.Set("User-Agent", "kube-probe")
	for _, h := range action.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true,
			}, //nolint:gosec // as a kubelet probes: it asks whether somebody answers, not who
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, 10<<10)
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return nil
}

func (p *prober) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = p.host
	}
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, named := range p.container.spec.Ports {
			if named.Name == port.StrVal {
				number = int(named.ContainerPort)
			}
		}
	}
	if number <= 0 {
		return "", errors.New("probe: port " + port.String() + " is not known")
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}
