package podreason

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Mirror is a static pod whose mirror pod is waited for.
type Mirror struct {
	Namespace, Name, Node string
	// Since is from when on it is waited for.
	Since time.Time
	// NodeObject is nil when it could not be read.
	NodeObject *corev1.Node
	// Words are what the kubelet logged last; empty when that is not known.
	Words string
}

// Missing is about a static pod of which the API shows nothing. Its kubelet has not read the manifest, does not take
// it, or cannot reach the API server.
func Missing(m Mirror) Reason {
	return m.reason("not published by the kubelet of node " + name(m.Node))
}

// Outdated is about a static pod of which the API shows what its manifest said before.
func Outdated(m Mirror) Reason {
	return m.reason("as before the change: the kubelet of node " + name(m.Node) + " has not taken the new manifest")
}

func (m Mirror) reason(state string) Reason {
	r := Reason{
		Object: "mirror pod " + name(m.Namespace) + "/" + name(m.Name),
		State:  fmt.Sprintf("%s since %s", state, timeOfDay(m.Since)),
		Why:    NodeState(m.NodeObject),
		Next:   "look at the kubelet on that host: journalctl -u kubelet",
	}
	if m.Words != "" {
		r.Next += "; its last words: " + shortenText(m.Words)
	}
	return r
}

// NodeState says what is wrong with a node, as its kubelet or the node controller says; empty where it is Ready, or is
// not known.
func NodeState(n *corev1.Node) string {
	if n == nil {
		return ""
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue {
			continue
		}
		out := fmt.Sprintf("node %s is not Ready since %s", name(n.Name), timeOfDay(c.LastTransitionTime.Time))
		if c.Status == corev1.ConditionUnknown {
			out = fmt.Sprintf("the kubelet of node %s has not reported since %s", name(n.Name), timeOfDay(c.LastHeartbeatTime.Time))
		}
		if why := shortenText(c.Message); why != "" {
			out += ": " + why
		}
		return out
	}
	return ""
}
