package client

import (
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

func TestWhatIsSaidOfAGathering(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		waits collect.Waits
		want  string
	}{
		{collect.Waits{Hosts: 3, Read: 3}, ""},
		{collect.Waits{For: []string{"pods"}, Longest: 40 * time.Second}, "gathering: waiting for pods (40s)"},
		{collect.Waits{Hosts: 12, Read: 3, For: []string{"worker-7"}, Longest: 12 * time.Second}, "gathering: 3 of 12 hosts read, waiting for worker-7 (12s)"},
		{collect.Waits{Hosts: 1, For: []string{"cp-1"}, Longest: 5 * time.Minute}, "gathering: 0 of 1 host read, waiting for cp-1 (5m)"},
		{collect.Waits{Hosts: 9, Read: 4, For: []string{"a", "b", "c", "d", "pods"}}, "gathering: 4 of 9 hosts read, waiting for a, b, c and 2 more (0s)"},
	} {
		if got := describeGathering(tc.waits); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.waits, got, tc.want)
		}
	}
}
