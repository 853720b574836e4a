// Package together decides what becomes of a panic in one of several functions that run at the same time. The one that
// waits for them panics in turn. So it ends no more than what was done for one cluster, where that is guarded.
package together

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Panic is what Wait panics with.
type Panic struct {
	Value any
	// Stack is that of the goroutine in which it happened.
	Stack []byte
}

// String is the text of the value alone.
func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Group runs functions at the same time. The zero value is ready.
type Group struct {
	running sync.WaitGroup

	mu    sync.Mutex
	first *Panic
}

// Go runs f in a goroutine of its own.
func (g *Group) Go(f func()) {
	g.running.Go(func() {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.first == nil {
				g.first = &Panic{value, debug.Stack()}
			}
		}()
		f()
	})
}

// Wait returns when all functions have returned. It panics with a *Panic where one of them did.
func (g *Group) Wait() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
}
