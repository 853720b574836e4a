package collect

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestAReasonIsCut: the API server of a user cluster says anything, and masking would take minutes under the lock.
func TestAReasonIsCut(t *testing.T) {
	g := &Collector{}
	why := "token=secret123456 " + strings.Repeat("a=b: é", 4<<20)
	g.Unknown("nodes", why)
	s := &v1.Snapshot{}
	AddError(s, "nodes", why)
	for _, e := range append(g.Errors, s.Errors...) {
		if n := len(e.Error); n > 2*maxReason || n < 100 || strings.Contains(e.Error, "secret123456") {
			t.Errorf("%d bytes are kept: %.60s", n, e.Error)
		}
	}
}
