package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Reachability are the hosts that could not be reached, each with the last attempt.
type Reachability struct {
	Mu           sync.Mutex
	LastAttempts map[string]lastAttempt
	// words are what kubelets logged last, by host.
	words map[string]kubeletWords
}

type kubeletWords struct {
	at   time.Time
	text string
}

type lastAttempt struct {
	at  time.Time
	err error
}

// awayFor is for how long an unreachable host is not tried again by callers that read all hosts. A read may take a
// minute to fail.
const awayFor = 20 * time.Second

// NoteUnreachable remembers a host that was out of reach.
func (e *Env) NoteUnreachable(err error) {
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		e.UnreachableHosts.Mu.Lock()
		defer e.UnreachableHosts.Mu.Unlock()
		if e.UnreachableHosts.LastAttempts == nil {
			e.UnreachableHosts.LastAttempts = map[string]lastAttempt{}
		}
		e.UnreachableHosts.LastAttempts[out.Host] = lastAttempt{e.Clock.Now(), out}
	}
}

// RecentlyUnreachable is what the last attempt to reach a host ended with, if that was a moment ago.
func (e *Env) RecentlyUnreachable(host string) error {
	e.UnreachableHosts.Mu.Lock()
	defer e.UnreachableHosts.Mu.Unlock()
	if a, ok := e.UnreachableHosts.LastAttempts[host]; ok && e.Clock.Since(a.at) < awayFor {
		return a.err
	}
	return nil
}

// LookTimeout bounds one more look at a host that was out of reach.
const LookTimeout = 15 * time.Second

// WhyUnreachable is why a host cannot be looked at; nil when it can.
func (e *Env) WhyUnreachable(ctx context.Context, name string) error {
	h, ok := e.HostsByName[name]
	if !ok {
		return errors.New("it is not among the hosts of --host-access")
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	_, err := h.List(ctx, "/etc/kubernetes")
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		return out.Err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer in %s", LookTimeout)
	}
	return nil
}

// IsExcluded reports whether a step has nothing to act on any longer: its host, or its node.
func (e *Env) IsExcluded(s v1.Step) (v1.HostOut, bool) {
	for _, h := range e.Journal.Doc().Without {
		if s.Host == h.Name || s.Kind == v1.StepInitializeNode && s.Ref == "Node/"+h.Node {
			return h, true
		}
	}
	return v1.HostOut{}, false
}

// IsNodeExcluded reports whether a node's host was excluded from the migration.
func (e *Env) IsNodeExcluded(node string) bool {
	return slices.ContainsFunc(e.Journal.Doc().Without, func(h v1.HostOut) bool { return h.Node == node })
}

const (
	// lastLines of a kubelet's log are shown, and lastChars of each.
	lastLines, lastChars = 3, 240
	lastWordsTimeout     = 10 * time.Second
	// wordsAfter is for how long a kubelet is waited for before its log is read; wordsPause, the time between two looks.
	wordsAfter, wordsPause = 20 * time.Second, time.Minute
)

// KubeletWords are what a kubelet logged last, where the access to its host can ask for it: lines of errors, else the
// last ones. A log of a kubelet holds no secrets; what is very long is cut.
func KubeletWords(ctx context.Context, e *Env, host string) string {
	h, err := e.Host(host)
	if err != nil {
		return ""
	}
	runner, err := hostaccess.RunnerOf(h)
	if err != nil {
		return ""
	}
	for _, c := range []hostaccess.Command{
		{
			Path:    "/usr/bin/journalctl",
			Args:    []string{"--unit=kubelet", "--lines=40", "--no-pager", "--output=cat"},
			Timeout: lastWordsTimeout,
		},
		{
			Path:    "/usr/bin/systemctl",
			Args:    []string{"status", component.Kubelet, "--no-pager", "--lines=40"},
			Timeout: lastWordsTimeout,
		},
	} {
		out, err := runner.Run(ctx, c)
		if words := tail(string(out)); err == nil && words != "" {
			return words
		}
	}
	return ""
}

// KubeletWordsSince is KubeletWords for a wait. It reads no log while the wait is short, and one log a minute after
// that.
func KubeletWordsSince(ctx context.Context, e *Env, host string, since time.Time) string {
	if e.Clock.Since(since) < wordsAfter || e.UnreachableHosts == nil {
		return ""
	}
	e.UnreachableHosts.Mu.Lock()
	known, is := e.UnreachableHosts.words[host]
	e.UnreachableHosts.Mu.Unlock()
	if is && e.Clock.Since(known.at) < wordsPause {
		return known.text
	}
	known = kubeletWords{e.Clock.Now(), KubeletWords(ctx, e, host)}
	e.UnreachableHosts.Mu.Lock()
	defer e.UnreachableHosts.Mu.Unlock()
	if e.UnreachableHosts.words == nil {
		e.UnreachableHosts.words = map[string]kubeletWords{}
	}
	e.UnreachableHosts.words[host] = known
	return known.text
}

// tail are the last lines of a log that speak of an error, else the last ones.
func tail(text string) string {
	var all, errs []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = mask.Cut(line, lastChars) // half a token would not be known for one
		all = append(all, line)
		if isError(line) {
			errs = append(errs, line)
		}
	}
	if len(errs) > 0 {
		all = errs
	}
	return strings.Join(all[max(0, len(all)-lastLines):], " | ")
}

// isError reports whether a line is one of klog that is an error or fatal, or what cobra prints of a wrong flag.
func isError(line string) bool {
	if strings.HasPrefix(line, "Error: ") || strings.HasPrefix(line, "Active: ") {
		return true
	}
	return len(line) > 5 && (line[0] == 'E' || line[0] == 'F') && strings.Trim(line[1:5], "0123456789") == ""
}
