package vsphereccm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// pages is how many objects a page of a list has in these tests: a list of 7 machines and what they are below has several.
const pages = 5

// hangs is the fault of an operation that is not answered.
const hangs = "no answer in time"

// operations are all that a look at nodes may ask of a vCenter, but for tags.
var operations = []string{
	"RetrieveServiceContent", "Login", "CreateContainerView", "RetrievePropertiesEx", "ContinueRetrievePropertiesEx", "FindAllByUuid", "FindAllByDnsName",
}

// faults are what happens to an operation, by its name in tests. Each returns what takes it away.
func faults(operation string) map[string]func(*vspheresim.VCenter) (remove func()) {
	add := func(f vspheresim.Fault) func(*vspheresim.VCenter) func() {
		f.Operation = operation
		return func(v *vspheresim.VCenter) func() { return v.Add(f) }
	}
	inject := func(fault types.BaseMethodFault, skip int) func(*vspheresim.VCenter) func() {
		return func(v *vspheresim.VCenter) func() {
			return v.Inject(simulator.FaultInjectionRule{MethodName: operation, FaultType: simulator.FaultTypeCustom, Fault: fault, SkipCount: skip})
		}
	}
	answer := `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><` + operation + `Response xmlns="urn:vim25"/></Body></Envelope>`
	return map[string]func(*vspheresim.VCenter) func(){
		"no answer":                      add(vspheresim.Fault{}),
		hangs:                            add(vspheresim.Fault{Hang: true}),
		"503":                            add(vspheresim.Fault{Status: 503, Body: "<html>down</html>"}),
		"a page of a proxy":              add(vspheresim.Fault{Status: 200, Body: "<html>log in here</html>"}),
		"an answer without anything":     add(vspheresim.Fault{Status: 200, Body: answer}),
		"half an answer":                 add(vspheresim.Fault{Half: true}),
		"half an answer that is cut off": add(vspheresim.Fault{Half: true, CutOff: true}),
		"the session has ended":          inject(&types.NotAuthenticated{}, 0),
		"the session ends after a call":  inject(&types.NotAuthenticated{}, 1),
		"no privilege":                   inject(&types.NoPermission{}, 0),
		"no such object":                 inject(&types.ManagedObjectNotFound{}, 0),
		"a fault of its own":             inject(&types.RuntimeFault{}, 0),
		"too much to do":                 inject(&types.HostCommunication{}, 0),
	}
}

// TestNoFaultOfAVCenterDeletesANode: each operation fails in each way, in a process that has seen the machines and in one that has
// not. A node whose machine is there may be unknown, and is never gone.
func TestNoFaultOfAVCenterDeletesANode(t *testing.T) {
	f := start(t, 7, "")
	f.SetPageSize(pages)
	f.nodes[5].Spec.ProviderID = ""                                                                         // found by its UUID
	f.nodes[6].Spec.ProviderID, f.nodes[6].Status.NodeInfo.SystemUUID, f.nodes[6].Name = "", "", "node-1-6" // found by its name
	gone := node("gone", "11111111-2222-4333-8444-555555555555", "")
	all := append(slices.Clone(f.nodes), gone)
	conf := config(f.Config("a", trusted(t, f.VCenter), "soapRoundtripCount: 1"), "")
	options := client.Options{RefusedFor: time.Nanosecond}
	for _, warm := range []bool{true, false} {
		for _, operation := range operations {
			for name, fail := range faults(operation) {
				t.Run(fmt.Sprintf("%s, %s, seen before %v", operation, name, warm), func(t *testing.T) {
					f.cloud = open(t, conf, options)
					if warm {
						f.list(t, cloud.WantExists, all...)
						if err := f.EndSessions(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					remove := fail(f.VCenter)
					f.neverGone(t, all, name == hangs)
					remove()
					f.recovers(t, all)
				})
			}
		}
	}
	for _, operation := range operations[:6] { // the last one is for nodes without an ID
		if f.asked[operation] == 0 {
			t.Errorf("%s was never asked for, so that no fault of it was tried", operation)
		}
	}
}

// neverGone looks at nodes twice, at all and one by one. It leaves a vCenter that hangs.
func (f *fixture) neverGone(t *testing.T, all []*corev1.Node, hanging bool) {
	t.Helper()
	look := func() (context.Context, context.CancelFunc) {
		if hanging {
			return context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		return context.WithCancel(t.Context())
	}
	for range 2 {
		ctx, end := look()
		states, err := f.cloud.ListInstances(ctx, all, everything)
		end()
		if err != nil && len(states) > 0 {
			t.Errorf("there are %d states next to the error %v", len(states), err)
		}
		for i, s := range states {
			if i < len(f.nodes) && s.Err == nil && !s.Exists {
				t.Errorf("node %s would be deleted", all[i].Name)
			}
		}
	}
	ctx, end := look()
	defer end()
	if exists, err := f.cloud.InstanceExists(ctx, all[0]); !exists && err == nil {
		t.Errorf("node %s would be deleted by a question for it alone", all[0].Name)
	}
	if off, err := f.cloud.InstanceShutdown(ctx, all[0]); off && err == nil {
		t.Errorf("node %s would be tainted", all[0].Name)
	}
}

// recovers checks that nothing is left of a fault.
func (f *fixture) recovers(t *testing.T, all []*corev1.Node) {
	t.Helper()
	for i, s := range f.list(t, everything, all...) {
		if there := i < len(f.nodes); s.Err != nil || s.Exists != there {
			t.Errorf("afterwards node %s: %+v", all[i].Name, s)
		}
	}
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	for _, call := range f.Calls() {
		f.asked[call]++
	}
}

// TestAPageThatIsMissingDeletesNoNode: a list of several pages loses each of them once. What the other pages have is not taken for
// all that there is.
func TestAPageThatIsMissingDeletesNoNode(t *testing.T) {
	f := start(t, 12, "")
	f.SetPageSize(pages)
	f.list(t, everything, f.nodes...)
	more := count(f.Calls(), "ContinueRetrievePropertiesEx")
	if more < 3 {
		t.Fatalf("a list has %d pages behind the first one", more)
	}
	for page := range more {
		for name, fault := range map[string]types.BaseMethodFault{
			"lost": &types.InvalidProperty{Name: "token"}, "of a session that has ended": &types.NotAuthenticated{},
		} {
			t.Run(fmt.Sprintf("page %d is %s", page+2, name), func(t *testing.T) {
				defer f.Inject(simulator.FaultInjectionRule{
					MethodName: "ContinueRetrievePropertiesEx", FaultType: simulator.FaultTypeCustom, Fault: fault, SkipCount: page, MaxCount: 1,
				})()
				states, err := f.cloud.ListInstances(t.Context(), f.nodes, cloud.WantExists)
				if retried := name != "lost"; (err == nil) != retried {
					t.Errorf("the error is %v", err)
				}
				for i, s := range states {
					if s.Err != nil || !s.Exists {
						t.Errorf("node %d: %+v", i, s)
					}
				}
			})
		}
	}
}

// TestAListInPagesIsTheListInOne: vCenter has pages as long as it likes.
func TestAListInPagesIsTheListInOne(t *testing.T) {
	f := start(t, 9, labels)
	f.tag(t, "k8s-zone", "z", "ClusterComputeResource")
	f.tag(t, "k8s-region", "r", "Datacenter")
	describe := func() (lines []string) {
		for _, s := range f.list(t, everything, f.nodes...) {
			lines = append(lines, fmt.Sprintf("%v %v %+v", s.Exists, s.Err, s.Metadata))
		}
		return lines
	}
	want := describe()
	for _, size := range []int{1, 2, 7, 100} {
		f.SetPageSize(size)
		if got := describe(); !slices.Equal(got, want) {
			t.Errorf("in pages of %d:\n%s\nwant\n%s", size, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
