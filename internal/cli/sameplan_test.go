package cli

import (
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/client"
)

// TestASnapshotGivesTheSamePlanByteForByte, whenever it is read: two reviewers who plan for one file compare the same text.
func TestASnapshotGivesTheSamePlanByteForByte(t *testing.T) {
	was := client.Now
	t.Cleanup(func() { client.Now = was })
	for _, format := range []string{"text", "wide", "markdown", "json", "yaml"} {
		var outputs [2]string
		for i := range outputs {
			client.Now = func() time.Time { return time.Date(2031, 1, 1+i, 0, 0, 0, 0, time.UTC) }
			outputs[i] = transplant(t, "plan", "--from-snapshot", labSnapshot, "-o", format).out
		}
		if outputs[0] == "" || outputs[0] != outputs[1] {
			t.Errorf("-o %s: two plans of one snapshot differ", format)
		}
	}
}
