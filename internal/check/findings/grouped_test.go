package findings

import (
	"fmt"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestTheSameErrorOfManyHostsIsOneLine: a second error among five hundred lines of the first would not be seen.
func TestTheSameErrorOfManyHostsIsOneLine(t *testing.T) {
	var p Problems
	for i := range 12 {
		host := fmt.Sprintf("cp-%02d", i)
		p.Add(host, "%s: cannot be read: permission denied", host)
		if i == 7 {
			p.Add(host, "%s: no space left", host)
		}
	}
	f := p.Finding(v1.Unknown, "hosts cannot be read")
	if len(f.Problems) != 2 || f.MoreProblems != 0 || len(f.Objects) != 12 {
		t.Fatalf("%d problems, %d more, %d objects: %s", len(f.Problems), f.MoreProblems, len(f.Objects), f.Found)
	}
	want := "cp-00: cannot be read: permission denied (12 in all: cp-00, cp-01, cp-02, cp-03, cp-04 and 7 more); cp-07: no space left"
	if f.Found != want {
		t.Errorf("got  %s\nwant %s", f.Found, want)
	}
	if len(f.Problems[0].Objects) != 12 || f.Problems[0].Objects[11] != "cp-11" || f.Problems[1].Objects != nil {
		t.Errorf("objects %q and %q", f.Problems[0].Objects, f.Problems[1].Objects)
	}
	if len(p) != 13 || p[0].Objects != nil || p[0].Text != "cp-00: cannot be read: permission denied" {
		t.Error("the problems were changed")
	}
}

// TestAHostIsNamedInsideOfItsError: the error of a file names the host once more.
func TestAHostIsNamedInsideOfItsError(t *testing.T) {
	var p Problems
	for _, host := range []string{"cp-1", "cp-2", "cp-3"} {
		p.Add("hosts/"+host+"/kubelet", "hosts/%s/kubelet: reading /x on host %q: permission denied", host, host)
		p.Add("kube-apiserver@"+host, "kube-apiserver@%s does not answer on %s:6443", host, host)
	}
	got := p.Grouped()
	if len(got) != 2 || len(got[0].Objects) != 3 || len(got[1].Objects) != 3 {
		t.Errorf("%d problems: %v", len(got), got)
	}
}

// TestOnlyTheNameMayDiffer: problems that differ in anything else stay apart, and so do those that do not name their object.
func TestOnlyTheNameMayDiffer(t *testing.T) {
	for name, p := range map[string]Problems{
		"another value": {{Object: "a", Text: "a has 1"}, {Object: "b", Text: "b has 2"}},
		"no name":       {{Object: "a", Text: "has 1"}, {Object: "b", Text: "has 1"}},
		"no object":     {{Text: "has 1"}, {Text: "has 1"}},
		"another place": {{Object: "x", Text: "x and y"}, {Object: "y", Text: "x and y"}},
	} {
		if got := p.Grouped(); !slices.EqualFunc(got, p, func(a, b v1.Problem) bool { return a.Text == b.Text && b.Object == a.Object }) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := (Problems{}).Grouped(); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}
