package proven

import (
	"regexp"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheVersionsAreReleasesInOrder(t *testing.T) {
	release := regexp.MustCompile(`^v1\.[1-9][0-9]*\.[0-9]+$`)
	for _, v := range Versions() {
		if !release.MatchString(v) {
			t.Errorf("%q is not a release", v)
		}
	}
	if !slices.IsSortedFunc(Versions(), func(a, b string) int { return minor(a) - minor(b) }) {
		t.Errorf("%v are not in order", Versions())
	}
}

func TestTheRangeHasBothItsEnds(t *testing.T) {
	first, last := Minors()
	for minor, want := range map[int]bool{first - 1: false, first: true, (first + last) / 2: true, last: true, last + 1: false} {
		if got := Covers(minor); got != want {
			t.Errorf("1.%d is covered: %v, want %v", minor, got, want)
		}
	}
}
