package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
	"github.com/transplant-dev/transplant/internal/together"
)

// Bounds of how many logs there are, and how many are read at a time. Who may create pods may create many.
const (
	maxContainers = 16 // of a component
	maxStreams    = 4
)

// components whose pods are looked at, the managers first.
var components = []string{component.CCM, component.KCM, component.KAS}

// logOf is a log that is read.
type logOf struct {
	v1.BundleFile
	namespace, pod string
}

// AddLogs reads the logs of kube-apiserver and of the managers among some pods: those of now, and those from before the
// last restart.
func (b *Bundle) AddLogs(ctx context.Context, kube kubernetes.Interface, pods []corev1.Pod) {
	logs, left := logsOf(pods)
	for _, what := range left {
		b.Lack(what, fmt.Errorf("logs of %d containers of a component are read", maxContainers))
	}
	for _, previous := range []bool{false, true} {
		if previous && b.size() >= b.options.MaxBytes { // masking them would take longer than they are worth
			b.Lack("logs from before the last restarts", errors.New("--max-size leaves no room for them"))
			return
		}
		b.readLogs(ctx, kube, slices.DeleteFunc(slices.Clone(logs), func(l logOf) bool { return l.Previous != previous }))
	}
}

// size is that of all files so far.
func (b *Bundle) size() (bytes int64) {
	for _, f := range b.files {
		bytes += int64(len(f.data))
	}
	return bytes
}

// readLogs reads some logs at the same time, and keeps them in their order.
func (b *Bundle) readLogs(ctx context.Context, kube kubernetes.Interface, logs []logOf) {
	read := make([]file, len(logs))
	failed := make([]error, len(logs))
	var reading together.Group
	places := make(chan struct{}, maxStreams)
	for i, l := range logs {
		reading.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			read[i], failed[i] = b.readLog(ctx, kube, l)
		})
	}
	reading.Wait()
	for i, f := range read {
		if failed[i] != nil {
			b.Lack(f.What, failed[i])
		}
		if failed[i] == nil || len(f.data) > 0 {
			b.files = append(b.files, f)
		}
	}
}

// logsOf are the logs of pods, in an order that does not change; left are sentences about those beyond the bound.
func logsOf(pods []corev1.Pod) (logs []logOf, left []string) {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, of := range components {
		count := 0
		for i := range pods {
			p := &pods[i]
			for j := range p.Spec.Containers {
				c := &p.Spec.Containers[j]
				if workloads.SeedComponent(c) != of {
					continue
				}
				if count++; count > maxContainers {
					continue
				}
				logs = append(logs, newLog(of, count, p, c.Name, false))
				if hasRestarted(p, c.Name) {
					logs = append(logs, newLog(of, count, p, c.Name, true))
				}
			}
		}
		if more := count - maxContainers; more > 0 {
			left = append(left, fmt.Sprintf("logs of %s of %s", english.Count(more, "more container"), of))
		}
	}
	return logs, left
}

func newLog(of string, number int, p *corev1.Pod, container string, previous bool) logOf {
	l := logOf{namespace: p.Namespace, pod: p.Name}
	l.Name = fmt.Sprintf("logs/%s-%d.log", of, number)
	l.Object, l.Container = clean("Pod/"+p.Namespace+"/"+p.Name), container
	l.Node, l.Previous = clean(p.Spec.NodeName), previous
	l.What = clean(fmt.Sprintf("log of %s, pod %s on node %s", of, p.Name, p.Spec.NodeName))
	if previous {
		l.Name = fmt.Sprintf("logs/%s-%d-previous.log", of, number)
		l.What += ", before its last restart"
	}
	return l
}

// hasRestarted reports whether a container has a log from before its last restart.
func hasRestarted(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && (s.RestartCount > 0 || s.LastTerminationState.Terminated != nil)
	})
}

// readLog reads one log. Of one that does not end in time, what came is returned next to the error.
func (b *Bundle) readLog(ctx context.Context, kube kubernetes.Interface, l logOf) (file, error) {
	f := file{BundleFile: l.BundleFile, isLog: true}
	if ctx.Err() != nil {
		return f, ErrOver
	}
	reading, cancel := context.WithTimeout(ctx, b.options.LogTimeout)
	defer cancel()
	o := &corev1.PodLogOptions{
		Container:  l.Container,
		Previous:   l.Previous,
		Timestamps: true,
		TailLines:  ptr.To(b.options.Lines),
		LimitBytes: ptr.To[int64](maxStream),
	}
	if !b.options.Since.IsZero() {
		o.SinceTime = ptr.To(metav1.NewTime(b.options.Since))
	}
	stream, err := kube.CoreV1().Pods(l.namespace).GetLogs(l.pod, o).Stream(reading)
	if err != nil {
		return f, b.whyEnded(ctx, reading, err)
	}
	stop := context.AfterFunc(reading, func() { _ = stream.Close() }) // a body may be read past its context
	defer stop()
	t, err := readTail(stream, b.options.LogBytes)
	f.data, f.Cut = cleanLog(t.lines), t.cutWords(b.options)
	f.Container = clean(f.Container)
	_ = stream.Close() // it was read
	if err != nil {
		err = b.whyEnded(ctx, reading, err)
		f.Cut = join(f.Cut, "its end: it could not be read on")
	}
	return f, err
}

// whyEnded says which time was over where one was.
func (b *Bundle) whyEnded(ctx, reading context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", ErrOver, err)
	case errors.Is(reading.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it did not end within %s; what came until then is kept: %w", b.options.LogTimeout, err)
	}
	return err
}
