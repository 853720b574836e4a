package podreason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	crashLoop = "CrashLoopBackOff"
	oomKilled = "OOMKilled"
	// sigkilled and sigtermed are the exit codes of a process that was told to end.
	sigkilled, sigtermed = 137, 143
)

// pullReasons are what a kubelet says of an image that it does not have.
var pullReasons = []string{
	"ErrImagePull",
	"ImagePullBackOff",
	"RegistryUnavailable",
	"InvalidImageName",
	"ErrImageNeverPull",
	"ImageInspectError",
}

// startReasons are what a kubelet says of a container that the runtime does not make or start.
var startReasons = []string{"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"}

// startEvents are the reasons of events about what comes before a container.
var startEvents = []string{
	"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedCreatePodContainer",
	"FailedPreStopHook", "NetworkNotReady", "NodeNotReady", "Failed",
}

// containers judges a pod that is on a node and has not ended.
func containers(f Facts, r *Reason) {
	p := f.Pod
	for _, s := range p.Status.InitContainerStatuses {
		if t := s.State.Terminated; t == nil || t.ExitCode != 0 {
			of(f, r, s)
			if s.State.Running != nil {
				r.State = "init container " + name(s.Name) + " runs"
			}
			return
		}
	}
	worst, rank := corev1.ContainerStatus{}, 0
	for _, s := range p.Status.ContainerStatuses {
		if n := rankOf(s); n > rank {
			worst, rank = s, n
		}
	}
	switch {
	case rank > 0:
		of(f, r, worst)
	case p.Status.StartTime == nil && len(p.Status.ContainerStatuses) == 0:
		unseen(f, r)
	case len(p.Status.ContainerStatuses) == 0:
		of(f, r, corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}})
	default:
		gates(f, r)
	}
}

// rankOf says how much a container explains: one that cannot be started more than one whose probe fails.
func rankOf(s corev1.ContainerStatus) int {
	switch w := s.State.Waiting; {
	case w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
		return 4
	case s.State.Terminated != nil:
		return 3
	case s.State.Running == nil:
		return 2
	case !s.Ready:
		return 1
	}
	return 0
}

// unseen is about a pod of which its kubelet has said nothing yet.
func unseen(f Facts, r *Reason) {
	r.State = "Pending"
	if at := f.Pod.CreationTimestamp; !at.IsZero() && f.Now.Sub(at.Time) > unnoticed {
		r.State = "Pending since " + timeOfDay(at.Time)
	}
	r.Why = "the kubelet of its node has not started it"
	if state := NodeState(f.Node); state != "" {
		r.Why += ", " + state
	}
	r.Next = "look at the kubelet on that node: it is down, or cannot reach the API server"
	if e := newest(f, startEvents...); e != "" {
		r.Why = e
	}
	r.lacksEvents = true
}

// of judges one container.
func of(f Facts, r *Reason, s corev1.ContainerStatus) {
	switch {
	case s.State.Waiting != nil:
		waiting(f, r, s, s.State.Waiting)
	case s.State.Terminated != nil:
		described(f, r, s, s.State.Terminated)
	case s.State.Running != nil:
		running(f, r, s)
	default:
		waiting(f, r, s, &corev1.ContainerStateWaiting{})
	}
}

func waiting(f Facts, r *Reason, s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) {
	p := f.Pod
	image := imageOf(p, s)
	switch {
	case w.Reason == crashLoop:
		t := s.LastTerminationState.Terminated
		if t == nil {
			r.Why, r.Next = shortenText(w.Message), logs(p, s.Name, true)
		} else {
			described(f, r, s, t)
		}
		r.State = crashLoop + " of image " + image + restarts(s.RestartCount)
		return
	case slices.Contains(pullReasons, w.Reason):
		r.State = name(w.Reason) + " of image " + image
		r.Why, r.lacksEvents = pullProblem(f, w), true
		r.Next = "see whether its node can pull it: crictl pull " + quoteName(imageName(p, s))
		if w.Reason == "InvalidImageName" {
			r.Next = "correct the name of the image"
		}
		return
	case w.Reason == "CreateContainerConfigError":
		r.State, r.Why = w.Reason+" of image "+image, shortenText(w.Message)
		r.Next = "make the ConfigMap or Secret that it names"
		return
	case slices.Contains(startReasons, w.Reason):
		r.State, r.Why = name(w.Reason)+" of image "+image, shortenText(w.Message)
		r.Next = "look at the container runtime's log on its node: it refuses to start the container"
	default:
		r.State = cmp.Or(name(w.Reason), "ContainerCreating")
		if r.State == "PodInitializing" {
			r.State = "ContainerCreating"
		}
		r.Why = shortenText(w.Message)
	}
	if e := newest(f, startEvents...); e != "" && (r.Why == "" || !strings.Contains(e, r.Why)) {
		r.Why = e
		r.Next = nextOf(e, r.Next)
	}
	r.lacksEvents = true
}

// pullProblem is why an image is not pulled. While it waits to try again, an older kubelet says that and no more, and
// its event has the reason.
func pullProblem(f Facts, w *corev1.ContainerStateWaiting) string {
	why := strings.TrimSpace(w.Message)
	if why == "" || isBackOff(why) {
		if e := newestThat(f, func(e *corev1.Event) bool {
			return e.Reason == "Failed" && !strings.HasPrefix(e.Message, "Error: ") ||
				e.Reason == "InspectFailed" || e.Reason == "ErrImageNeverPull"
		}); e != nil {
			why = e.Message
		}
	}
	return shortenText(why)
}

// isBackOff reports whether a kubelet says of an image only that it waits to pull it again.
func isBackOff(message string) bool {
	return strings.HasPrefix(message, "Back-off pulling image") && !strings.Contains(message, "ErrImagePull:")
}

// nextOf is what to do about an event of a pod that is not started.
func nextOf(event, or string) string {
	reason, _, _ := strings.Cut(event, ":")
	switch reason {
	case "FailedMount", "FailedMapVolume":
		return "put on the node, or into the cluster, what the volume needs"
	case "FailedAttachVolume":
		return "see why the volume is not attached: kubectl get volumeattachments"
	case "FailedCreatePodSandBox", "NetworkNotReady":
		return "look at the network plugin and the container runtime of the node"
	}
	return or
}

// described is about a container that has ended: with which code, of what, and what it logged last.
func described(f Facts, r *Reason, s corev1.ContainerStatus, t *corev1.ContainerStateTerminated) {
	r.State = "container " + name(s.Name) + " ended"
	how := fmt.Sprintf("it ended last with exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		how += ", " + name(t.Reason)
	}
	r.container, r.current = s.Name, s.State.Terminated != nil
	if (t.ExitCode == sigkilled || t.ExitCode == sigtermed) && t.Reason != oomKilled {
		r.lacksEvents = true // a liveness probe may be why
		if e := newest(f, "Unhealthy"); e != "" {
			how += ", " + e
		}
	}
	line := shortenText(lastLine(t.Message))
	if line == "" {
		r.lacksLog, line = true, shortenText(f.LastLine)
	}
	if line != "" {
		how += `; its last line: "` + line + `"`
	}
	r.Why = how
	switch {
	case t.Reason == oomKilled:
		r.Next = "raise its memory limit, or find out what takes its memory"
	case slices.Contains(startReasons, t.Reason):
		r.State, r.Next = name(t.Reason)+" of image "+imageOf(f.Pod, s),
			"look at the container runtime's log on its node: it refuses to start the container"
	default:
		r.Next = logs(f.Pod, s.Name, !r.current)
	}
}

// running is about a container that runs and is not Ready.
func running(f Facts, r *Reason, s corev1.ContainerStatus) {
	r.State = "Running, not Ready" + restarts(s.RestartCount)
	r.lacksEvents = true
	begun := s.State.Running.StartedAt.Time
	if e := newestThat(f, func(e *corev1.Event) bool {
		return e.Reason == "Unhealthy" && !EventTime(e).Before(begun)
	}); e != nil {
		r.Why = shortenText(e.Reason + ": " + e.Message)
	}
	if t := s.LastTerminationState.Terminated; t != nil && r.Why == "" {
		state := r.State
		described(f, r, s, t)
		r.State = state
	}
	r.Next = logs(f.Pod, s.Name, false)
}

// gates is about a pod all of whose containers are ready.
func gates(f Facts, r *Reason) {
	r.State = "Running, not Ready"
	for _, g := range f.Pod.Spec.ReadinessGates {
		c := condition(f.Pod, g.ConditionType)
		switch {
		case c == nil:
			r.Why = "no controller has written its readiness gate " + name(string(g.ConditionType))
		case c.Status != corev1.ConditionTrue:
			r.Why = shortenText(fmt.Sprintf("readiness gate %s is %s: %s %s", g.ConditionType, c.Status, c.Reason, c.Message))
		default:
			continue
		}
		r.Next = "look at the controller that writes this condition"
		return
	}
	if c := condition(f.Pod, corev1.PodReady); c != nil {
		r.Why = shortenText(strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
	}
	if state := NodeState(f.Node); state != "" {
		r.Why = state
	}
}

// imageOf is the image of a container as a sentence has it.
func imageOf(p *corev1.Pod, s corev1.ContainerStatus) string { return name(imageName(p, s)) }

// imageName is the image that the pod asks for: a status may have that of before, or another name of it.
func imageName(p *corev1.Pod, s corev1.ContainerStatus) string {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// lastLine is the last line of a text that says something: one that speaks of an error, where the last few do.
func lastLine(log string) string {
	const few = 10
	if cut := len(log) - maxLog; cut > 0 {
		// what is left of a line without its beginning may be a secret without its name
		_, log, _ = strings.Cut(log[cut:], "\n")
	}
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return ""
	}
	lines = lines[max(0, len(lines)-few):]
	for _, l := range slices.Backward(lines) {
		if isError(l) {
			return strings.TrimSpace(l)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// isError reports whether a line says that something failed. That is one of klog that is an error or fatal, what cobra
// prints of a wrong flag, or the beginning of a panic.
func isError(line string) bool {
	line = strings.TrimSpace(line)
	if len(line) > 1 && (line[0] == 'E' || line[0] == 'F') && line[1] >= '0' && line[1] <= '9' {
		return true
	}
	lower := strings.ToLower(line)
	for _, word := range []string{"error: ", "error=", `"level":"error"`, "fatal", "panic: "} {
		at := strings.Index(lower, word)
		if at == 0 || at > 0 && (word[0] == '"' || lower[at-1] == ' ') {
			return true
		}
	}
	return false
}
