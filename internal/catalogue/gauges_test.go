package catalogue

import "testing"

func TestManagersShowTheirLoopsSince126(t *testing.T) {
	for _, c := range []struct {
		component string
		minor     int
		want      bool
	}{
		{"kube-controller-manager", 25, false}, {"kube-controller-manager", 26, true}, {"cloud-controller-manager", 25, false},
		{"cloud-controller-manager", 26, true}, {"cloud-controller-manager", 37, true},
		{"kube-scheduler", 30, false},
	} {
		if have := ShowsLoops(c.component, c.minor); have != c.want {
			t.Errorf("%s 1.%d: %v", c.component, c.minor, have)
		}
	}
}
