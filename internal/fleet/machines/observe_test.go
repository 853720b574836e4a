package machines

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	changed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // since when machines are made external
	before  = changed.Add(-time.Hour)
	after   = changed.Add(time.Minute)
)

// migrating is a cluster with one MachineDeployment "md" of so many replicas and one MachineSet, both of before the change, and nothing else.
func migrating(replicas int) Facts {
	since := changed
	return Facts{
		Time:     changed.Add(10 * time.Minute),
		CCMReady: true,
		Record:   Record{ExternalSince: &since},
		Deployments: []Deployment{
			{
				Namespace:          "kube-system",
				Name:               "md",
				UID:                "md",
				Generation:         1,
				ObservedGeneration: 1,
				Replicas:           replicas,
				Updated:            replicas,
				Total:              replicas,
				Ready:              replicas,
				Available:          replicas,
			},
		},
		Sets: []MachineSet{{Namespace: "kube-system", Name: "old", UID: "old", Owner: "md", Created: before, Revision: 1, Replicas: replicas}},
	}
}

// newSet adds the MachineSet of a template of after the change.
func (f Facts) newSet() Facts {
	f.Sets = append(f.Sets, MachineSet{Namespace: "kube-system", Name: "new", UID: "new", Owner: "md", Created: after, Revision: 2})
	return f
}

// with adds a machine of a set and its node.
func (f Facts) with(m Machine, n Node) Facts {
	m.Namespace, m.UID = "kube-system", m.Name
	n.UID, n.OwnedBy = "node-"+n.Name, m.UID
	f.Machines, f.Nodes = append(f.Machines, m), append(f.Nodes, n)
	return f
}

func inTree(name string, created time.Time) Node {
	return Node{Name: name, Created: created, Ready: true, ProviderID: "aws:///z/" + name, ProviderIDBy: "kubelet"}
}

func external(name string, created time.Time) Node {
	return Node{Name: name, Created: created, Ready: true, ProviderID: "aws:///z/" + name, ProviderIDBy: "aws-cloud-controller-manager"}
}

func only(t *testing.T, f Facts) MachineState {
	t.Helper()
	o := Observe(f)
	if len(o.Machines) != 1 {
		t.Fatalf("%d machines, want one: %+v", len(o.Machines), o.Machines)
	}
	return o.Machines[0]
}

func TestAMachineCountsByWhatItsNodeShows(t *testing.T) {
	oldMachine := Machine{Name: "m", Owner: "old", Created: before}
	newMachine := Machine{Name: "m", Owner: "new", Created: after, External: "true"}
	for name, c := range map[string]struct {
		facts Facts
		want  Reason
		by    Evidence
	}{
		"an old machine runs in-tree":                      {migrating(1).with(oldMachine, inTree("n", before)), InTree, EvidenceInTree},
		"a machine that a cloud manager initialized":       {migrating(1).newSet().with(newMachine, external("n", after)), "", EvidenceInitialized},
		"the annotation lies: recreated from old userdata": {migrating(1).with(Machine{Name: "m", Owner: "old", Created: after, External: "true"}, inTree("n", after)), AnnotationContradicted, EvidenceInTree},
		"the annotation is missing, the node is external":  {migrating(1).with(Machine{Name: "m", Owner: "old", Created: after}, external("n", after)), "", EvidenceInitialized},
		"an old node, nothing known, annotated by hand": {
			migrating(1).with(Machine{Name: "m", Owner: "old", Created: before, External: "true"}, Node{Name: "n", Created: before, Ready: true, ProviderID: "x"}),
			OlderThanChange,
			EvidenceNone,
		},
		"a new node of an old set, nothing known": {
			migrating(1).with(Machine{Name: "m", Owner: "old", Created: after, External: "true"}, Node{Name: "n", Created: after, Ready: true, ProviderID: "x"}),
			OldUserdata,
			EvidenceNone,
		},
		"a new node of a new set, nothing known": {
			migrating(1).newSet().with(newMachine, Node{Name: "n", Created: after, Ready: true, ProviderID: "x", ProviderIDBy: "machine-controller"}),
			"",
			EvidenceCircumstance,
		},
		"the same without the annotation": {
			migrating(1).newSet().with(Machine{Name: "m", Owner: "new", Created: after}, Node{Name: "n", Created: after, Ready: true, ProviderID: "x"}),
			AnnotationMissing,
			EvidenceNone,
		},
		"the same with an annotation nobody can parse": {
			migrating(1).newSet().with(Machine{Name: "m", Owner: "new", Created: after, External: "yes"}, Node{Name: "n", Created: after, Ready: true, ProviderID: "x"}),
			AnnotationMissing,
			EvidenceNone,
		},
		"the node still waits for the cloud manager": {migrating(1).newSet().with(newMachine, Node{Name: "n", Created: after, Ready: true, Uninitialized: true}), Uninitialized, EvidenceCircumstance},
		"the node has no providerID":                 {migrating(1).newSet().with(newMachine, Node{Name: "n", Created: after, Ready: true}), NoProviderID, EvidenceCircumstance},
		"the node is not ready": {
			migrating(1).newSet().with(newMachine, Node{Name: "n", Created: after, ProviderID: "x"}),
			NodeNotReady,
			EvidenceCircumstance,
		},
		"an external machine that is going is still external": {migrating(1).with(Machine{Name: "m", Owner: "old", Created: after, Deleting: after}, external("n", after)), "", EvidenceInitialized},
		"an in-tree machine that is going still runs": {
			migrating(1).with(Machine{Name: "m", Owner: "old", Created: before, Deleting: after, External: "true"}, inTree("n", before)),
			BeingDeleted,
			EvidenceInTree,
		},
		"another machine's old node at the same name":          {renamed(migrating(1).with(newMachine, inTree("m", before)), "somebody-else"), NoNode, EvidenceNone},
		"a node that machine-controller took for it by its IP": {wrongRef(), NoNode, EvidenceNone},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observe(c.facts)
			i := slices.IndexFunc(o.Machines, func(m MachineState) bool { return m.Name == "m" })
			if i < 0 {
				t.Fatalf("the machine is not in %+v", o.Machines)
			}
			got := o.Machines[i]
			if got.Reason != c.want || got.Evidence != c.by || got.Migrated != (c.want == "") {
				t.Errorf("got %q by %s (%s), want %q by %s", got.Reason, got.Evidence, got.Message, c.want, c.by)
			}
			if !got.Migrated && (got.Message == "" || o.Complete) {
				t.Errorf("message %q, complete %t", got.Message, o.Complete)
			}
		})
	}
}

// renamed makes another machine, which exists, the owner of the only node.
func renamed(f Facts, owner string) Facts {
	f.Nodes[0].OwnedBy = owner
	f.Machines = append(f.Machines, Machine{Namespace: "kube-system", Name: owner, UID: owner, Owner: "old", Created: before})
	return f
}

// wrongRef is a machine whose nodeRef names a node that has inherited an address, and has since been replaced by another of the same name.
func wrongRef() Facts {
	f := migrating(1).with(Machine{Name: "m", Owner: "old", Created: before, NodeName: "n", NodeUID: "gone"}, external("n", after))
	f.Nodes[0].OwnedBy = ""
	return f
}

func TestTheTaintAtRegistrationProvesAnExternalKubelet(t *testing.T) {
	f := migrating(1).with(Machine{Name: "m", Owner: "old", Created: after}, Node{Name: "n", Created: after, Uninitialized: true})
	f.Record.See(f.Nodes)
	f.Nodes[0] = Node{Name: "n", UID: f.Nodes[0].UID, OwnedBy: "m", Created: after, Ready: true, ProviderID: "x", ProviderIDBy: "kubelet"}
	f.Record.See(f.Nodes)
	if got := only(t, f); got.Evidence != EvidenceTaint || !got.Migrated {
		t.Errorf("a kubelet that gives a providerID and registers tainted is external: %+v", got)
	}
}

func TestATaintThatSomebodyAddedLaterProvesNothing(t *testing.T) {
	f := migrating(1).with(Machine{Name: "m", Owner: "old", Created: before}, inTree("n", before))
	f.Record.See(f.Nodes)
	f.Nodes[0].Uninitialized = true
	f.Record.See(f.Nodes)
	f.Nodes[0].Uninitialized = false
	if got := only(t, f); got.Reason != InTree {
		t.Errorf("got %+v, want an in-tree machine", got)
	}
}

func TestAnOldNodeThatWasInitializedLateMayBeInTree(t *testing.T) {
	for name, c := range map[string]struct {
		created, at time.Time
		want        Evidence
	}{
		"tainted by hand, since it had no providerID": {before, before.Add(2 * time.Hour), EvidenceNone},
		"external before we came":                     {before, before.Add(time.Minute), EvidenceInitialized},
		"the API server does not say when":            {before, time.Time{}, EvidenceInitialized},
		"new, and written to again later":             {after, after.Add(48 * time.Hour), EvidenceInitialized},
	} {
		n := external("n", c.created)
		n.ProviderIDAt = c.at
		if got := only(t, migrating(1).with(Machine{Name: "m", Owner: "old", Created: c.created}, n)); got.Evidence != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	r := Record{}
	if !r.See([]Node{{UID: "a", Uninitialized: true}, {UID: "b"}}) || r.See([]Node{{UID: "b"}, {UID: "a"}}) {
		t.Error("a first sight is a change, a second is none")
	}
	if !r.See([]Node{{UID: "b"}}) {
		t.Error("that a node went is no change")
	}
	if diff := cmp.Diff(map[string]Sighting{"b": {}}, r.Nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVolumesHaveToBeTakenOver(t *testing.T) {
	ebs := []Volume{{Driver: "ebs.csi.aws.com", Plugin: "kubernetes.io/aws-ebs"}}
	n := external("n", after)
	for name, c := range map[string]struct {
		drivers, plugins []string
		want             Reason
	}{
		"neither":   {nil, nil, DriverMissing},
		"no driver": {nil, []string{"kubernetes.io/aws-ebs"}, DriverMissing},
		"no plugin": {[]string{"ebs.csi.aws.com"}, []string{"kubernetes.io/cinder"}, PluginNotMigrated},
		"both":      {[]string{"x", "ebs.csi.aws.com"}, []string{"kubernetes.io/cinder", "kubernetes.io/aws-ebs"}, ""},
	} {
		n.Drivers, n.Plugins = c.drivers, c.plugins
		f := migrating(1).newSet().with(Machine{Name: "m", Owner: "new", Created: after, External: "true"}, n)
		f.Volumes = ebs
		if got := only(t, f); got.Reason != c.want {
			t.Errorf("%s: got %q, want %q", name, got.Reason, c.want)
		}
		f.Volumes = nil
		if got := only(t, f); !got.Migrated {
			t.Errorf("%s: without a CSI driver got %q", name, got.Reason)
		}
	}
}

func TestNoMachinesAreDoneOnceMachinesWouldBeExternal(t *testing.T) {
	f := migrating(0)
	f.Deployments, f.Sets = nil, nil
	if o := Observe(f); !o.Complete || o.Total != 0 {
		t.Errorf("a cluster without machines: %+v", o)
	}
	f.CCMReady = false
	if Observe(f).Complete {
		t.Error("complete although no cloud-controller-manager is ready")
	}
	f.CCMReady, f.Record.ExternalSince = true, nil
	if Observe(f).Complete {
		t.Error("complete although the next machine would be in-tree")
	}
	f.Record.ExternalSince, f.Unknown = &changed, []string{"listing machines: refused"}
	if Observe(f).Complete {
		t.Error("complete although the machines could not be listed")
	}
}

func TestTheDeletionOfTheLastMachineIsNotTheEnd(t *testing.T) {
	f := migrating(1) // its status still counts the machine that was deleted a moment ago
	o := Observe(f)
	if o.Complete || o.Deployments[0].Reason != WantsMachines {
		t.Errorf("no machine is left and the MachineDeployment wants one: %+v", o)
	}
	if !strings.Contains(o.Message(), "wants 1 machines and has 0") {
		t.Errorf("message: %s", o.Message())
	}
}

func TestARolloutThatIsNotFinishedIsNotComplete(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Deployment)
		want   Reason
	}{
		"the last change was not looked at": {func(d *Deployment) { d.Generation = 2 }, NotObserved},
		"old machines are left":             {func(d *Deployment) { d.Total = 2 }, RolloutUnfinished},
		"not all are of the newest":         {func(d *Deployment) { d.Updated = 0 }, RolloutUnfinished},
		"not all are available":             {func(d *Deployment) { d.Available = 0 }, RolloutUnfinished},
		"paused before it was finished":     {func(d *Deployment) { d.Updated, d.Paused = 0, true }, Paused},
		"it wants one more":                 {func(d *Deployment) { d.Replicas = 2 }, WantsMachines},
		"paused and finished":               {func(d *Deployment) { d.Paused = true }, ""},
		"finished":                          {func(*Deployment) {}, ""},
	} {
		f := migrating(1).newSet().with(Machine{Name: "m", Owner: "new", Created: after, External: "true"}, external("n", after))
		c.change(&f.Deployments[0])
		o := Observe(f)
		if o.Complete != (c.want == "") || o.Deployments[0].Reason != c.want {
			t.Errorf("%s: complete %t, %q; want %q", name, o.Complete, o.Deployments[0].Reason, c.want)
		}
	}
}

func TestAMachineDeploymentAtZeroWarnsAndHoldsNothingUp(t *testing.T) {
	o := Observe(migrating(0))
	if !o.Complete || len(o.Warnings) != 1 || o.Deployments[0].Reason != OldTemplate || !o.Deployments[0].Settled {
		t.Errorf("got %+v", o)
	}
}

func TestAFreeMachineSetHasToHaveItsMachines(t *testing.T) {
	f := migrating(0)
	f.Sets = append(f.Sets, MachineSet{Namespace: "kube-system", Name: "free", UID: "free", Created: after, Replicas: 1})
	if o := Observe(f); o.Complete || o.Wanted != 1 {
		t.Errorf("a MachineSet without its machine: %+v", o)
	}
	f = f.with(Machine{Name: "m", Owner: "free", Created: after}, external("n", after))
	if o := Observe(f); !o.Complete {
		t.Errorf("a MachineSet with its machine: %+v", o)
	}
}

func TestANodeWithoutAMachineCounts(t *testing.T) {
	f := migrating(0)
	f.Nodes = []Node{
		{Name: "by-hand", UID: "1", Created: before, Ready: true, ProviderID: "x", ProviderIDBy: "kubelet"},
		{Name: "virtual", UID: "2", Virtual: true},
	}
	o := Observe(f)
	if o.Complete || o.Total != 1 || o.Machines[0].Reason != NodeWithoutMachine {
		t.Errorf("got %+v", o)
	}
	f.Nodes[0].ProviderIDBy = "cloud-controller-manager"
	if o := Observe(f); !o.Complete || o.Done != 1 {
		t.Errorf("a static worker that is external: %+v", o)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	f := migrating(300)
	for i := range 300 {
		f = f.with(Machine{Name: strings.Repeat("m", 20) + time.Duration(i).String(), Owner: "old", Created: before}, inTree(time.Duration(i).String(), before))
	}
	m := Observe(f).Message()
	if len(m) > 400 || !strings.Contains(m, "0 of 300") || !strings.Contains(m, "and 297 more") {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}
