package loadbalancer

import (
	"strings"
	"testing"
)

// TestAPatternIsNoLongerThanANameOfASubnet: an expression of 20 kB would take hundreds of megabytes, at each try.
func TestAPatternIsNoLongerThanANameOfASubnet(t *testing.T) {
	for pattern, want := range map[string]bool{
		"~a{1000}":                          true,
		strings.Repeat("x", maxPattern):     true,
		strings.Repeat("x", maxPattern+1):   false,
		"~" + strings.Repeat("a{1000}", 40): false,
	} {
		if _, err := namePattern(pattern); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "floating-subnet has") {
			t.Errorf("a pattern of %d characters: %v", len(pattern), err)
		}
	}
}
