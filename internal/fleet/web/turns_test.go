package web

import (
	"context"
	"testing"
	"time"
)

// TestAClusterIsLookedAtOnceAtATime: eight looks at one that answers nothing had the places of all others.
func TestAClusterIsLookedAtOnceAtATime(t *testing.T) {
	var at turns
	done, err := at.waitForTurn(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := at.waitForTurn(late, "a"); err == nil {
		t.Error("a cluster is looked at twice at a time")
	}
	other, err := at.waitForTurn(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	next := make(chan error, 1)
	go func() {
		done, err := at.waitForTurn(t.Context(), "a")
		if err == nil {
			done()
		}
		next <- err
	}()
	done()
	if err := <-next; err != nil {
		t.Error(err)
	}
	if len(at.taken) > 0 {
		t.Errorf("turns that are not given back: %v", at.taken)
	}
}
