package status

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

type (
	codes   = []v1.BlockerCode
	changes = []func(*Facts)
)

// ofSeeds are the codes of blockers that only the managers of a hosted control plane show: internal/client/hostedrun makes them.
var ofSeeds = codes{v1.BlockerTwoOwners, v1.BlockerTokenExpires}

// warned is a fact that somebody reported a warning about an object just now.
func warned(kind string) func(*Facts) {
	return func(f *Facts) {
		f.Events = append(f.Events, &corev1.Event{
			Type: corev1.EventTypeWarning, Reason: "Refused", InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "x"}, LastTimestamp: metav1.NewTime(noon),
		})
	}
}

// TestEachTroubleHasItsCode: whatever the words say, the code says what it is. Each code is made of some facts.
func TestEachTroubleHasItsCode(t *testing.T) {
	noLock := func(f *Facts) { f.Lock = nil }
	over := func(f *Facts) { f.Journal.Phase, f.Journal.Ended, f.Lock = v1.RunApplied, ptr.To(noon), nil }
	silent := func(f *Facts) {
		f.Leases = map[string]*coordinationv1.Lease{component.KCM: managerLease("cp-1_x", time.Minute)}
	}
	made := slices.Clone(ofSeeds)
	for name, c := range map[string]struct {
		change changes
		want   codes
	}{
		"a run that goes well":         {nil, nil},
		"a journal of somebody else":   {changes{func(f *Facts) { f.Untrusted = errors.New("rule P-42") }}, codes{v1.BlockerJournalUntrusted}},
		"an error":                     {changes{noLock, failed}, codes{v1.BlockerRunFailed}},
		"a command that was killed":    {changes{noLock}, codes{v1.BlockerRunStopped}},
		"a pause":                      {changes{paused}, codes{v1.BlockerPaused}},
		"renewals that did not come":   {changes{func(f *Facts) { f.Lock = lockAged(20*time.Second, 0) }}, codes{v1.BlockerLockSilent}},
		"a lock that was left behind":  {changes{func(f *Facts) { f.Lock = lockAged(215*time.Second, 0) }}, codes{v1.BlockerLockExpired}},
		"a clock that is off":          {changes{func(f *Facts) { f.Lock = lockAged(2*time.Second, 10*time.Second) }}, codes{v1.BlockerClockOff}},
		"a step that takes too long":   {changes{func(f *Facts) { f.Journal.Records[1].Started = noon.Add(-5 * time.Minute) }}, codes{v1.BlockerStepSlow}},
		"a host that was excluded":     {changes{func(f *Facts) { f.Journal.Without = []v1.HostOut{{Name: "cp-2", At: noon}} }}, codes{v1.BlockerHostExcluded}},
		"a lease that is not renewed":  {changes{silent}, codes{v1.BlockerLeaseExpired}},
		"a loop without a manager":     {changes{silent, over}, codes{v1.BlockerLoopWithoutOwner, v1.BlockerLeaseExpired}},
		"a node that is not Ready":     {changes{func(f *Facts) { f.Nodes["cp-1"] = node("cp-1", "False", noon) }}, codes{v1.BlockerNodeNotReady}},
		"a warning about a Node":       {changes{warned("Node")}, codes{v1.BlockerNodeWarning}},
		"a warning about a Service":    {changes{warned("Service")}, codes{v1.BlockerServiceWarning}},
		"a warning about a Deployment": {changes{warned("Deployment")}, nil},
		"a pod that is not Ready": {changes{func(f *Facts) {
			f.Pods = []*corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
			}}}}
		}}, codes{v1.BlockerPodNotReady}},
	} {
		t.Run(name, func(t *testing.T) {
			var have codes
			for _, b := range Judge(underWay(c.change...)).Health {
				have = append(have, b.Code)
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
		})
		made = append(made, c.want...)
	}
	for _, code := range declared(t) {
		if !slices.Contains(made, code) {
			t.Errorf("no facts give a blocker with the code %s", code)
		}
	}
}

// TestThePageHasEveryCode in the order of the source, and no other.
func TestThePageHasEveryCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/watching-a-migration.md")
	if err != nil {
		t.Fatal(err)
	}
	var have codes
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| (error|warning|info)").FindAllStringSubmatch(string(page), -1) {
		have = append(have, v1.BlockerCode(m[1]))
	}
	if diff := cmp.Diff(declared(t), have); diff != "" {
		t.Errorf("codes of the source, and of the page (-source +page):\n%s", diff)
	}
}

// declared are the codes that the API names.
func declared(t *testing.T) codes {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/transplant/v1alpha1/status.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out codes
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		of, isTyped := spec.Type.(*ast.Ident)
		if literal, isText := spec.Values[0].(*ast.BasicLit); isTyped && isText && of.Name == "BlockerCode" {
			code, err := strconv.Unquote(literal.Value)
			if err != nil || !regexp.MustCompile(`^([A-Z][a-z]+){1,3}$`).MatchString(code) {
				t.Errorf("%s is no reason in CamelCase: %v", literal.Value, err)
			}
			out = append(out, v1.BlockerCode(code))
		}
		return true
	})
	if len(out) < 15 {
		t.Fatalf("%d codes were read", len(out))
	}
	return out
}
