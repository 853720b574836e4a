package step

import (
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/transplant-dev/transplant/internal/english"
)

// NodeBudget counts the nodes that are under change, and knows whether one of a batch went wrong.
type NodeBudget struct {
	mu     sync.Mutex
	held   map[string]bool
	failed bool
}

// Begin forgets the failures of an earlier batch.
func (b *NodeBudget) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = false
}

// Fail lets no further node be changed in this batch.
func (b *NodeBudget) Fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
}

// Holding are the nodes under change, and whether a step of the batch went wrong.
func (b *NodeBudget) Holding() (map[string]bool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for n := range b.held {
		out[n] = true
	}
	return out, b.failed
}

// Busy reports whether nodes are under change.
func (b *NodeBudget) Busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held) > 0
}

// Take holds a node if no more than most nodes are then not Ready or under change. before are those that were held when
// the nodes were read. What ended since counts as well, because the read does not show how it ended. owed is a node
// that this migration has changed and that is down already, or has to be taken back. It uses its place whatever the
// others do, and to wait for them would keep it down.
func (b *NodeBudget) Take(
	node string,
	most int,
	before map[string]bool,
	notReady []string,
	owed bool,
) (why string, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		return "", true
	}
	busy := map[string]bool{}
	for n := range b.held {
		busy[n] = true
	}
	for n := range before {
		busy[n] = true
	}
	for _, n := range notReady {
		busy[n] = true
	}
	delete(busy, node)
	if len(busy)+1 > most && !owed {
		return fmt.Sprintf(
			"at most %s may be not Ready or under change at a time, and %s",
			english.Count(most, "node"),
			busyNodes(busy, notReady),
		), false
	}
	if b.held == nil {
		b.held = map[string]bool{}
	}
	b.held[node] = true
	return "", false
}

// Give gives the place of a node back.
func (b *NodeBudget) Give(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, node)
}

// busyNodes names the nodes that use the budget up.
func busyNodes(busy map[string]bool, notReady []string) string {
	down := map[string]bool{}
	for _, n := range notReady {
		down[n] = true
	}
	var dead, working []string
	for n := range busy {
		if down[n] {
			dead = append(dead, n)
		} else {
			working = append(working, n)
		}
	}
	sort.Strings(dead)
	sort.Strings(working)
	var parts []string
	if len(dead) > 0 {
		parts = append(parts, english.FirstOf(5, dead)+english.Word(len(dead), " is ", " are ")+"not Ready")
	}
	if len(working) > 0 {
		parts = append(parts, english.FirstOf(5, working)+english.Word(len(working), " is ", " are ")+"under change")
	}
	return strings.Join(parts, ", ")
}
