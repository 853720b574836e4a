package answerlimit

import (
	"context"
	"strings"
	"testing"
)

// TestTheReaderThatKeepsTheMostIsEnded: several clusters of one administrator must not fill the memory of the operator
// together, and the readers of other clusters go on.
func TestTheReaderThatKeepsTheMostIsEnded(t *testing.T) {
	total := newTotal(0)
	total.mostKept = 100
	reader := func() (context.Context, func()) { return Keep(t.Context()) }
	keeps := func(ctx context.Context, n int64) error {
		return readerOf(ctx).take(&answer{cluster: total.cluster(0)}, n)
	}
	large, doneLarge := reader()
	small, doneSmall := reader()
	last, doneLast := reader()
	defer doneLarge()
	defer doneLast()
	for _, r := range []struct {
		of context.Context
		n  int64
	}{{large, 40}, {small, 30}, {large, 20}, {last, 10}} {
		if err := keeps(r.of, r.n); err != nil {
			t.Fatal(err)
		}
	}
	if err := keeps(last, 10); err != nil { // 110, of which large has 60
		t.Errorf("the reader that keeps less is refused: %v", err)
	}
	if err := context.Cause(large); err == nil || !strings.Contains(err.Error(), "would take more than 0 MiB of memory, and this look has taken the most") {
		t.Errorf("the reader that keeps the most goes on: %v", err)
	}
	if small.Err() != nil || last.Err() != nil {
		t.Errorf("others are ended: %v, %v", small.Err(), last.Err())
	}
	doneSmall()
	if err := keeps(last, 80); err != nil { // all of the limit
		t.Errorf("what another reader kept is not free: %v", err)
	}
	if err := keeps(last, 1); err == nil || context.Cause(last) != err { //nolint:errorlint // the same one
		t.Errorf("it keeps more than the limit: %v", err)
	}
	if total.kept != 0 || len(total.readers) != 0 {
		t.Errorf("%d bytes of %d readers are counted on", total.kept, len(total.readers))
	}
}
