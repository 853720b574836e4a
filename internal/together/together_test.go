package together

import (
	"bytes"
	"fmt"
	"testing"
)

// TestAPanicReachesTheOneThatWaits, when the others have returned.
func TestAPanicReachesTheOneThatWaits(t *testing.T) {
	others := 0
	func() {
		defer func() {
			p, ok := recover().(*Panic)
			if !ok || fmt.Sprint(p) != "index out of range [7]" || !bytes.Contains(p.Stack, []byte("bad(")) {
				t.Errorf("it panics with %v", p)
			}
		}()
		var g Group
		end := make(chan struct{})
		g.Go(func() { defer close(end); bad() })
		g.Go(func() { <-end; others++ })
		g.Wait()
		t.Error("it returns")
	}()
	if others != 1 {
		t.Errorf("%d others returned", others)
	}
}

func bad() { panic("index out of range [7]") }

func TestWaitReturnsWhenAllHaveReturned(t *testing.T) {
	var g Group
	done := make([]bool, 10)
	for i := range done {
		g.Go(func() { done[i] = true })
	}
	g.Wait()
	for i, ok := range done {
		if !ok {
			t.Errorf("function %d did not run", i)
		}
	}
}
