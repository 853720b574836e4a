package staticpod

import "testing"

func TestWhatAProgramSaysOfItselfIsComparedWithTheTag(t *testing.T) {
	for _, c := range []struct {
		have, tag string
		same      bool
	}{
		{"v1.27.4", "v1.27.4", true}, {"v1.27.4", "1.27.4", true}, {"v1.27.4+k3s1", "v1.27.4", true}, {"v1.27.4-eks-2d98532", "v1.27.4", true},
		{"v1.27.40", "v1.27.4", false}, {"v1.26.0", "v1.27.4", false}, {"", "v1.27.4", false},
	} {
		if have := matchesTag(c.have, c.tag); have != c.same {
			t.Errorf("%s and %s: %v", c.have, c.tag, have)
		}
	}
}
