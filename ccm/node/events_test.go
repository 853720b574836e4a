package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

type seenEvent struct{ node, kind, reason, message string }

// events returns the events of an API server in parts.
func (*running) events(api *nodetest.API) []seenEvent {
	var events []seenEvent
	for _, text := range api.Events() {
		name, rest, _ := strings.Cut(text, ": ")
		head, message, _ := strings.Cut(rest, ": ")
		kind, reason, _ := strings.Cut(head, " ")
		events = append(events, seenEvent{name, kind, reason, message})
	}
	return events
}

// many returns nodes n0000, n0001, ...
func many(n int, changes ...func(*corev1.Node)) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		nodes[i] = nodeWith(fmt.Sprintf("n%04d", i), changes...)
	}
	return nodes
}
