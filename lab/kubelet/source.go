package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const manifestDir = "/etc/kubernetes/manifests"

// source turns the manifest directory into the set of pods that shall run.
//
// Two things feed it, as in a real kubelet. A file event reads that one file; if it cannot be parsed, the last valid
// content stays. A rescan reads everything, and what cannot be parsed then is gone. So a manifest that is invalid for a
// moment does no harm, and one left invalid costs the pod after about one period.
//
// All files without a leading dot count, whatever their suffix. If several name the same pod, the one whose name sorts
// last wins: next to X.yaml, a backup X.yaml.bak is what runs. (A real kubelet keeps the last one it read, which is the
// same after each rescan.)
type source struct {
	hostDir      string
	nodeName     string
	period       time.Duration
	invalidAfter time.Duration
	log          *slog.Logger

	files map[string]*staticPod // by file name: the last valid content
	seen  map[string]time.Time  // by hash: when it was first read
	bad   map[string]badFile    // by file name: why it cannot be used now
}

type badFile struct {
	since time.Time
	text  string
}

func newSource(hostDir, nodeName string, p Profile, log *slog.Logger) *source {
	return &source{
		hostDir: hostDir, nodeName: nodeName, period: p.FileCheck, invalidAfter: p.InvalidAfter, log: log,
		files: map[string]*staticPod{}, seen: map[string]time.Time{}, bad: map[string]badFile{},
	}
}

func (s *source) dir() string { return filepath.Join(s.hostDir, manifestDir) }

// run calls update with the wanted pods, at once and after each event and rescan, until ctx ends.
func (s *source) run(ctx context.Context, update func(map[string]*staticPod)) {
	tick := time.NewTicker(s.period)
	defer tick.Stop()
	var (
		events  chan fsnotify.Event
		errs    chan error
		watched = true // no watcher, nothing to add
	)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.log.Warn("Manifests cannot be watched: changes are found by rescans only", "err", err)
	} else {
		defer func() { _ = watcher.Close() }()
		events, errs, watched = watcher.Events, watcher.Errors, watcher.Add(s.dir()) == nil
	}
	s.rescan(time.Now())
	for {
		update(s.pods())
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if !watched { // the directory did not exist, or was replaced
				watched = watcher.Add(s.dir()) == nil
			}
			s.rescan(now)
		case e := <-events:
			if filepath.Clean(e.Name) == s.dir() {
				watched = watched && !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename)
				continue
			}
			s.event(filepath.Base(e.Name), time.Now())
		case err := <-errs:
			s.log.Warn("Watching manifests", "err", err)
		}
	}
}

// event reads one file again; content that is not valid changes nothing.
func (s *source) event(name string, now time.Time) {
	if strings.HasPrefix(name, ".") {
		return
	}
	pod, err := s.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(s.files, name)
		delete(s.bad, name)
	case errors.Is(err, syscall.EISDIR): // not a manifest
	case err != nil:
		s.complain(name, err, now)
	default:
		s.keep(name, pod, now)
	}
}

// rescan reads all files; what has not been valid for a while is forgotten.
func (s *source) rescan(now time.Time) {
	entries, err := os.ReadDir(s.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// An unreadable directory says nothing about the pods: they go on.
		s.complain(".", fmt.Errorf("reading directory %q: %w", manifestDir, err), now)
		return
	}
	found := map[string]bool{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		pod, err := s.read(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.complain(e.Name(), err, now)
			found[e.Name()] = now.Sub(s.bad[e.Name()].since) < s.invalidAfter
		default:
			found[e.Name()] = true
			s.keep(e.Name(), pod, now)
		}
	}
	maps.DeleteFunc(s.files, func(name string, _ *staticPod) bool { return !found[name] })
}

func (s *source) read(name string) (*staticPod, error) {
	path := filepath.Join(manifestDir, name)
	data, err := os.ReadFile(filepath.Join(s.hostDir, path))
	if err != nil {
		return nil, fmt.Errorf("reading manifest %q: %w", path, err)
	}
	return parseManifest(data, path, s.nodeName)
}

func (s *source) keep(name string, pod *staticPod, now time.Time) {
	delete(s.bad, name)
	if old := s.files[name]; old != nil && old.hash() == pod.hash() {
		return
	}
	if _, ok := s.seen[pod.hash()]; !ok {
		s.seen[pod.hash()] = now
	}
	pod.pod.Annotations[annotationSeen] = s.seen[pod.hash()].UTC().Format(time.RFC3339Nano)
	s.files[name] = pod
	s.log.Info("Manifest read", "file", name, "pod", pod.key(), "hash", pod.hash())
}

func (s *source) complain(name string, err error, now time.Time) {
	b, known := s.bad[name]
	if !known {
		b.since = now
	}
	if b.text != err.Error() {
		b.text = err.Error()
		s.log.Error("Could not process manifest file", "file", name, "err", err)
	}
	s.bad[name] = b
}

// pods resolves several files of one pod in favour of the name that sorts last.
func (s *source) pods() map[string]*staticPod {
	out := map[string]*staticPod{}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		out[s.files[name].key()] = s.files[name]
	}
	return out
}
