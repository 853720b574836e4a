// Package testimony decides whether the holder of a lease is known to have ended: by the word of its kubelet alone.
//
// A holder writes Epitaph(identity) as the termination message of its container, before it contends. The kubelet puts
// the message into the pod's status when the runtime says that this container has ended, and never before. So it tells
// of the end of the process with the identity. A container that was started in its place has another message.
// docs/explanation/fence.md says what the proof relies on.
//
// That a Pod is gone, NotReady or on a lost node proves nothing: what runs on its host is not known then.
package testimony

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Annotation is on a lease, and says in which pod its holder runs. It counts for the holder that it names alone:
//
//	transplant.dev/held-in: ccm-x7k2p on ip-10-0-0-11.ec2.internal by ip-10-0-0-11_0f6c...
//
// The pod is one of the lease's own namespace.
const Annotation = "transplant.dev/held-in"

// Epitaph is the termination message of a holder.
func Epitaph(identity string) string { return "leader election identity: " + identity }

// Claim says where the holder of a lease runs.
type Claim struct{ Pod, Node, Holder string }

func (c Claim) String() string { return fmt.Sprintf("%s on %s by %s", c.Pod, c.Node, c.Holder) }

// ClaimOf is what a lease says of its holder. It is empty where the lease says nothing, or speaks of an earlier holder.
func ClaimOf(lease *coordinationv1.Lease) Claim {
	if lease == nil {
		return Claim{}
	}
	pod, rest, _ := strings.Cut(lease.Annotations[Annotation], " on ")
	node, holder, _ := strings.Cut(rest, " by ")
	if pod == "" || node == "" || holder == "" || holder != ptr.Deref(lease.Spec.HolderIdentity, "") {
		return Claim{}
	}
	return Claim{Pod: pod, Node: node, Holder: holder}
}

// HasEnded reports whether a pod's status says that the holder has ended. The kubelet of a pod's node writes the
// status. So a pod of another node proves nothing, whatever its name: an attacker may have that node.
func (c Claim) HasEnded(pod *corev1.Pod) bool {
	if pod == nil || pod.Name != c.Pod || pod.Spec.NodeName != c.Node {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if c.isSaidBy(s.State.Terminated) || c.isSaidBy(s.LastTerminationState.Terminated) {
			return true
		}
	}
	return false
}

// isSaidBy reports whether a container's end is that of the holder. Where the runtime has something to say, the kubelet
// puts it before the message.
func (c Claim) isSaidBy(t *corev1.ContainerStateTerminated) bool {
	epitaph := Epitaph(c.Holder)
	return WasSeenToEnd(t) && (t.Message == epitaph || strings.HasSuffix(t.Message, ": "+epitaph))
}

// What is said of containers whose end the runtime has not seen. One that has lost sight of a container, as after the
// end of its shim, says that it has ended, with this exit code. It may still run (cri-o/cri-o#8705).
const exitUnknown = 255

var reasonsUnknown = []string{"Unknown", "ContainerStatusUnknown"}

// WasSeenToEnd reports whether a runtime saw a container end. A program that exits with 255 itself is not told apart
// from a container that is out of sight, and not believed.
func WasSeenToEnd(t *corev1.ContainerStateTerminated) bool {
	return t != nil && t.ExitCode >= 0 && t.ExitCode != exitUnknown && !slices.Contains(reasonsUnknown, t.Reason)
}
