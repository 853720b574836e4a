package catalogue

import "testing"

// The table is what New of each minor's resourcelock/interface.go makes and refuses.
func TestLockKnown(t *testing.T) {
	for _, c := range []struct {
		kind  string
		minor int
		want  bool
	}{
		{"leases", 20, true}, {"leases", 36, true},
		{"endpoints", 23, true}, {"endpoints", 24, false},
		{"configmaps", 23, true}, {"configmaps", 24, false},
		{"endpointsleases", 27, true}, {"endpointsleases", 28, false},
		{"configmapsleases", 27, true}, {"configmapsleases", 28, false},
		{"files", 23, false}, {"", 26, false},
	} {
		if got := LockKnown(c.kind, c.minor); got != c.want {
			t.Errorf("a lock of kind %q in 1.%d: got %t, want %t", c.kind, c.minor, got, c.want)
		}
	}
}
