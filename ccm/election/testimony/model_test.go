package testimony

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// host is a state of the model: one node with one pod of a fixed name, whose container a kubelet starts again and again,
// and the pod as the API shows it. Incarnation i of the container writes the identity i, before it contends.
type host struct {
	running   int    // the incarnation that runs; 0: none
	begun     int    // how many there were
	ended     [2]int // what the runtime still knows of ended ones: the last, and the one before
	said      [2]int // what the status in the API says: terminated now, and in the last state; 0: nothing, or another message
	shown     bool   // whether the pod is in the API
	here      bool   // whether that pod is one of this node
	holder    int    // the incarnation that the lease names
	suspended bool
}

// lost marks, as a factor, the incarnation that the runtime calls ended because it has lost sight of it.
const lost = -1

// incarnations bounds the model.
const incarnations = 3

// steps are what can happen next.
func (h host) steps() map[string]host {
	out := map[string]host{}
	if h.running == 0 && h.begun < incarnations {
		n := h
		n.begun++
		n.running, n.suspended = n.begun, false
		out["the kubelet starts the container"] = n
	}
	if h.running != 0 {
		n := h
		n.ended = [2]int{h.running, h.ended[0]}
		n.running = 0
		out["the process ends"] = n
		n = h
		n.suspended = !h.suspended
		out["the process is stopped or goes on"] = n
		if !h.suspended {
			n = h
			n.holder = h.running
			out["it takes the lease"] = n
		}
	}
	n := h
	n.shown, n.here = true, true
	n.said = h.ended
	if h.running != 0 {
		n.said = [2]int{0, h.ended[0]}
	}
	out["the kubelet writes the status, or makes the mirror pod again"] = n
	n = h
	n.shown, n.said = false, [2]int{}
	out["the pod is deleted, by force or not"] = n
	n = h
	n.shown, n.here, n.said = true, false, [2]int{1 + h.begun%incarnations, h.holder}
	out["another node has a pod of that name, and lies"] = n
	n = h
	n.ended = [2]int{}
	out["the runtime forgets ended containers"] = n
	if h.running != 0 {
		n = h
		n.said = [2]int{}
		out["the kubelet cannot find the container that runs, and says so"] = n
		n = h
		n.shown, n.here, n.said = true, true, [2]int{lost * h.running, h.ended[0]}
		out["the runtime has lost sight of the container that runs, and calls it ended"] = n
	}
	return out
}

// pod is what the API shows.
func (h host) pod() *corev1.Pod {
	if !h.shown {
		return nil
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Spec.NodeName = "ccm", "elsewhere"
	if h.here {
		pod.Spec.NodeName = "here"
	}
	state := func(incarnation int) *corev1.ContainerStateTerminated {
		if incarnation == 0 {
			return nil
		}
		if incarnation < 0 {
			return &corev1.ContainerStateTerminated{Message: Epitaph(fmt.Sprint(lost * incarnation)), ExitCode: 255}
		}
		return &corev1.ContainerStateTerminated{Message: Epitaph(fmt.Sprint(incarnation)), ExitCode: 137}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: state(h.said[0])}, LastTerminationState: corev1.ContainerState{Terminated: state(h.said[1])},
	}}
	return pod
}

// TestNoTestimonyAgainstAProcessThatRuns goes through every state that the model can come to: in none does the status
// say of the process that runs, or is stopped, that it has ended.
func TestNoTestimonyAgainstAProcessThatRuns(t *testing.T) {
	states, believed, wrong := explore(Claim.HasEnded)
	if wrong != "" {
		t.Error(wrong)
	}
	if states < 1000 || believed < 50 {
		t.Errorf("the model has %d states, and in %d of them an end is believed: it is too small to say anything", states, believed)
	}
	t.Logf("%d states, an end is believed in %d of them", states, believed)
}

// TestTheModelSeesWhatIsTakenAway: whoever leaves one of these out believes that a process has ended which runs.
func TestTheModelSeesWhatIsTakenAway(t *testing.T) {
	for name, change := range map[string]func(c *Claim, pod *corev1.Pod){
		"whose node the pod is bound to":       func(c *Claim, pod *corev1.Pod) { c.Node = pod.Spec.NodeName },
		"whose message it is":                  says(func(c *Claim, t *corev1.ContainerStateTerminated) { t.Message = Epitaph(c.Holder) }),
		"whether the runtime has seen the end": says(func(_ *Claim, t *corev1.ContainerStateTerminated) { t.ExitCode = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, wrong := explore(func(c Claim, pod *corev1.Pod) bool {
				if pod != nil {
					change(&c, pod)
				}
				return c.HasEnded(pod)
			})
			t.Log(wrong)
			if wrong == "" {
				t.Error("no wrong word is believed")
			}
		})
	}
}

// says changes what a pod's status says of ended containers.
func says(change func(*Claim, *corev1.ContainerStateTerminated)) func(*Claim, *corev1.Pod) {
	return func(c *Claim, pod *corev1.Pod) {
		for i := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[i]
			for _, terminated := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
				if terminated != nil {
					change(c, terminated)
				}
			}
		}
	}
}

// explore goes through all states, and returns how many there are, in how many an end is believed, and where it is
// believed of a process that runs.
func explore(isBelieved func(Claim, *corev1.Pod) bool) (states, believed int, wrong string) {
	type path struct {
		from string
		step string
	}
	start := host{}
	came, queue := map[host]path{start: {}}, []host{start}
	for len(queue) > 0 {
		h := queue[0]
		queue = queue[1:]
		of := Claim{Pod: "ccm", Node: "here", Holder: fmt.Sprint(h.holder)}
		if h.holder != 0 && isBelieved(of, h.pod()) {
			believed++
			if h.running == h.holder && wrong == "" {
				wrong = fmt.Sprintf("a process that runs is said to have ended: %+v, by %q from %s", h, came[h].step, came[h].from)
			}
		}
		for step, next := range h.steps() {
			if _, seen := came[next]; !seen {
				came[next] = path{fmt.Sprintf("%+v", h), step}
				queue = append(queue, next)
			}
		}
	}
	return len(came), believed, wrong
}
