package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestInventory(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(before, after *v1.Snapshot)
		direction string
		want      []v1.Difference
	}{
		{name: "nothing changed", change: func(_, _ *v1.Snapshot) {}},
		{
			name: "addresses in another order, and DNS names, are the external manager's",
			change: func(b, a *v1.Snapshot) {
				a.Nodes[0].Addresses = []string{b.Nodes[0].Addresses[1], b.Nodes[0].Addresses[0]}
				a.Nodes[1].Addresses = append(a.Nodes[1].Addresses, "InternalDNS=x")
				a.Nodes[2].Addresses = append(a.Nodes[2].Addresses, "ExternalIP=1.2.3.4")
				a.Nodes[3].Addresses = a.Nodes[3].Addresses[:1]
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-13.ec2.internal", Field: "addresses", Before: "InternalIP=10.0.0.13, Hostname=ip-10-0-0-13.ec2.internal", After: "InternalIP=10.0.0.13, Hostname=ip-10-0-0-13.ec2.internal, ExternalIP=1.2.3.4"},
				{Object: "Node/ip-10-0-0-14.ec2.internal", Field: "addresses", Before: "InternalIP=10.0.0.14, Hostname=ip-10-0-0-14.ec2.internal", After: "InternalIP=10.0.0.14"},
				{
					Object:   "Node/ip-10-0-0-11.ec2.internal",
					Field:    "addresses",
					Before:   "InternalIP=10.0.0.11, Hostname=ip-10-0-0-11.ec2.internal",
					After:    "Hostname=ip-10-0-0-11.ec2.internal, InternalIP=10.0.0.11",
					Expected: true,
					Why:      "the same addresses: the external manager writes them in its own order",
				},
				{
					Object:   "Node/ip-10-0-0-12.ec2.internal",
					Field:    "addresses",
					Before:   "InternalIP=10.0.0.12, Hostname=ip-10-0-0-12.ec2.internal",
					After:    "InternalIP=10.0.0.12, Hostname=ip-10-0-0-12.ec2.internal, InternalDNS=x",
					Expected: true,
					Why:      "the external manager writes the DNS names of the instance too",
				},
			},
		},
		{
			name: "after a rollback nothing of that is expected", direction: directionRollback,
			change: func(_, a *v1.Snapshot) {
				a.Nodes[1].Addresses = append(a.Nodes[1].Addresses, "InternalDNS=x")
				a.Nodes[1].Labels["topology.k8s.aws/zone-id"] = "use1-az1"
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-12.ec2.internal", Field: "addresses", Before: "InternalIP=10.0.0.12, Hostname=ip-10-0-0-12.ec2.internal", After: "InternalIP=10.0.0.12, Hostname=ip-10-0-0-12.ec2.internal, InternalDNS=x"},
				{Object: "Node/ip-10-0-0-12.ec2.internal", Field: "label topology.k8s.aws/zone-id", After: "use1-az1"},
			},
		},
		{
			name: "labels that are set at initialisation are expected, others are not",
			change: func(b, a *v1.Snapshot) {
				a.Nodes[0].Labels["topology.kubernetes.io/zone"] = "us-east-1a"
				b.Nodes[1].Labels["topology.kubernetes.io/zone"], a.Nodes[1].Labels["topology.kubernetes.io/zone"] = "a", "b"
				a.Nodes[2].Labels["empty"] = ""
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-12.ec2.internal", Field: "label topology.kubernetes.io/zone", Before: "a", After: "b"},
				{Object: "Node/ip-10-0-0-13.ec2.internal", Field: "label empty", After: `""`},
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "label topology.kubernetes.io/zone", After: "us-east-1a", Expected: true, Why: "the external manager labels nodes that it initialises"},
			},
		},
		{
			name: "what comes and goes with a Service or a Node is expected",
			change: func(b, a *v1.Snapshot) {
				a.Services, a.Cloud.LoadBalancers = a.Services[1:], a.Cloud.LoadBalancers[1:]
				b.Services, b.Cloud.LoadBalancers = b.Services[:3], b.Cloud.LoadBalancers[:3]
				b.Nodes, b.Cloud.Routes, b.Cloud.Instances = b.Nodes[:7], b.Cloud.Routes[:7], b.Cloud.Instances[:7]
				a.Cloud.LoadBalancers[0].Members = append(a.Cloud.LoadBalancers[0].Members, "i-000000a7")
			},
			want: []v1.Difference{
				{Object: "LoadBalancer/a0000000000000000000000000000000", Field: "object", Before: "a0.us-east-1.elb.amazonaws.com", Expected: true, Why: "its Service/shop/web is gone too"},
				{Object: "LoadBalancer/a0000000000000000000000000000001", Field: "member i-000000a7", After: "registered", Expected: true, Why: "so did its Node ip-10-0-0-18.ec2.internal"},
				{Object: "LoadBalancer/a0000000000000000000000000000003", Field: "object", After: "a3.us-east-1.elb.amazonaws.com", Expected: true, Why: "its Service/shop/annotated is new too"},
				{Object: "Node/ip-10-0-0-18.ec2.internal", Field: "object", After: "present", Expected: true, Why: "it joined: no step of a migration adds a Node"},
				{Object: "Route/rtb-lab/10.200.7.0/24", Field: "object", After: "to i-000000a7", Expected: true, Why: "so did its Node ip-10-0-0-18.ec2.internal"},
				{Object: "Service/shop/annotated", Field: "object", After: "present", Expected: true, Why: "another client created it: no step of a migration creates a Service"},
				{Object: "Service/shop/web", Field: "object", Before: "present", Expected: true, Why: "another client deleted it: no step of a migration deletes a Service"},
			},
		},
		{
			name: "a Node that is gone is lost, with its route",
			change: func(_, a *v1.Snapshot) {
				a.Nodes, a.Cloud.Routes = a.Nodes[1:], a.Cloud.Routes[1:]
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "object", Before: "present"},
				{Object: "Route/rtb-lab/10.200.0.0/24", Field: "object", Before: "to i-000000a0", Expected: true, Why: "so did its Node ip-10-0-0-11.ec2.internal"},
			},
		},
		{
			name: "a Node that comes has the pod CIDR of one that is gone",
			change: func(b, a *v1.Snapshot) {
				b.Nodes, b.Cloud.Routes, b.Cloud.Instances = b.Nodes[:7], b.Cloud.Routes[:7], b.Cloud.Instances[:7]
				a.Nodes, a.Cloud.Routes = a.Nodes[1:], a.Cloud.Routes[:7]
				a.Cloud.Routes[0].Target = "i-000000a7"
				a.Nodes[len(a.Nodes)-1].PodCIDRs = []string{a.Cloud.Routes[0].CIDR}
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "object", Before: "present"},
				{Object: "Node/ip-10-0-0-18.ec2.internal", Field: "object", After: "present", Expected: true, Why: "it joined: no step of a migration adds a Node"},
				{
					Object: "Route/rtb-lab/10.200.0.0/24", Field: "target", Before: "i-000000a0", After: "i-000000a7", Expected: true,
					Why: "Node ip-10-0-0-11.ec2.internal is gone, and Node ip-10-0-0-18.ec2.internal that came has its pod CIDR",
				},
			},
		},
		{
			name: "a route leads to a Node that came and has another pod CIDR",
			change: func(b, a *v1.Snapshot) {
				b.Nodes, b.Cloud.Routes, b.Cloud.Instances = b.Nodes[:7], b.Cloud.Routes[:7], b.Cloud.Instances[:7]
				a.Nodes, a.Cloud.Routes = a.Nodes[1:], a.Cloud.Routes[:7]
				a.Cloud.Routes[0].Target = "i-000000a7"
				a.Nodes[len(a.Nodes)-1].PodCIDRs = []string{"10.200.99.0/24"}
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "object", Before: "present"},
				{Object: "Route/rtb-lab/10.200.0.0/24", Field: "target", Before: "i-000000a0", After: "i-000000a7"},
				{Object: "Node/ip-10-0-0-18.ec2.internal", Field: "object", After: "present", Expected: true, Why: "it joined: no step of a migration adds a Node"},
			},
		},
		{
			name: "a node that is not ready comes back to the load balancers",
			change: func(b, a *v1.Snapshot) {
				b.Nodes[5].Ready, a.Nodes[5].Ready = "False", "False"
				a.Cloud.LoadBalancers[2].Members = append(a.Cloud.LoadBalancers[2].Members, "i-000000a5")
				a.Cloud.LoadBalancers[3].Members = append(a.Cloud.LoadBalancers[3].Members, "i-000000a6")
				a.Cloud.LoadBalancers[1].Members = a.Cloud.LoadBalancers[1].Members[1:]
			},
			want: []v1.Difference{
				{Object: "LoadBalancer/a0000000000000000000000000000001", Field: "member i-000000a3", Before: "registered"},
				{Object: "LoadBalancer/a0000000000000000000000000000003", Field: "member i-000000a6", After: "registered"},
				{Object: "LoadBalancer/a0000000000000000000000000000002", Field: "member i-000000a5", After: "registered", Expected: true, Why: "the external manager registers nodes that are not ready, and leaves their health to the load balancer"},
			},
		},
		{
			name: "routes and Services that changed",
			change: func(_, a *v1.Snapshot) {
				a.Cloud.Routes[0].State, a.Cloud.Routes[1].Target = "blackhole", "i-000000a2"
				a.Services[0].Finalizers, a.Services[1].Annotations = nil, map[string]string{"note": "x"}
				a.Nodes[0].Ready, a.Nodes[1].Taints = "Unknown", []string{"node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"}
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "ready", Before: "True", After: "Unknown"},
				{Object: "Node/ip-10-0-0-12.ec2.internal", Field: "taints", After: "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"},
				{Object: "Route/rtb-lab/10.200.0.0/24", Field: "state", Before: "active", After: "blackhole"},
				{Object: "Route/rtb-lab/10.200.1.0/24", Field: "target", Before: "i-000000a1", After: "i-000000a2"},
				{Object: "Service/shop/web", Field: "finalizers", Before: "service.kubernetes.io/load-balancer-cleanup"},
				{Object: "Service/shop/api", Field: "annotation note", After: "x", Expected: true, Why: "no controller manager writes annotations of a Service: another client did"},
			},
		},
		{
			name: "a Service that had ready endpoints and has none is lost; other numbers, new Services and deleted ones are not",
			change: func(b, a *v1.Snapshot) {
				a.Endpoints[0].Ready = 1
				a.Endpoints[1].Ready = 0
				a.Endpoints[2] = v1.ServiceEndpoints{Service: "shop/internal"}
				a.Endpoints = append(a.Endpoints[:3], v1.ServiceEndpoints{Service: "shop/new"})
				b.Endpoints = append(b.Endpoints, v1.ServiceEndpoints{Service: "shop/never", Total: 3})
			},
			want: []v1.Difference{
				{Object: "Service/shop/api", Field: "endpoints", Before: "2 of 2 ready", After: "0 of 2 ready"},
				{Object: "Service/shop/internal", Field: "endpoints", Before: "2 of 2 ready", After: "none: no pod that it selects runs"},
				{Object: "Service/shop/annotated", Field: "endpoints", Before: "2 of 2 ready", Expected: true, Why: "the Service was deleted: no step of a migration deletes one"},
			},
		},
		{
			name: "a volume that is gone with its claim was given up; one whose claim is still there is lost",
			change: func(_, a *v1.Snapshot) {
				a.Volumes.PersistentVolumes = nil
				a.Volumes.Claims = []v1.VolumeClaim{{Ref: "shop/data-1", Volume: "pv-1", Phase: "Lost"}}
				a.Volumes.Attachments = nil
			},
			want: []v1.Difference{
				{Object: "PersistentVolume/pv-1", Field: "object", Before: "Bound shop/data-1"},
				{Object: "PersistentVolumeClaim/shop/data-1", Field: "phase", Before: "Bound", After: "Lost"},
				{Object: "PersistentVolume/pv-0", Field: "object", Before: "Bound shop/data-0", Expected: true, Why: "its claim shop/data-0 is gone too: no step of a migration deletes a claim"},
				{Object: "PersistentVolume/pv-2", Field: "object", Before: "Released shop/old", Expected: true, Why: "it was released: no pod used it"},
				{Object: "VolumeAttachment/pv-0@ip-10-0-0-16.ec2.internal", Field: "object", Before: "attached", Expected: true, Why: "detached in order: no pod on the node needs it"},
				{Object: "VolumeAttachment/pv-1@ip-10-0-0-17.ec2.internal", Field: "object", Before: "attached", Expected: true, Why: "detached in order: no pod on the node needs it"},
			},
		},
		{
			name: "what CSI migration changes is expected, another disk or a failed volume is not",
			change: func(_, a *v1.Snapshot) {
				a.Volumes.PersistentVolumes[0].MigratedTo = "ebs.csi.aws.com"
				a.Volumes.PersistentVolumes[1].Handle = "vol-other"
				a.Volumes.PersistentVolumes[2].Phase = "Failed"
				a.Volumes.CSINodes[0].MigratedPlugins = []string{"kubernetes.io/aws-ebs"}
				a.Nodes[5].Attachable = nil
			},
			want: []v1.Difference{
				{Object: "PersistentVolume/pv-1", Field: "volumeHandle", Before: "vol-1", After: "vol-other"},
				{Object: "PersistentVolume/pv-2", Field: "phase", Before: "Released", After: "Failed"},
				{Object: "CSINode/ip-10-0-0-16.ec2.internal", Field: "migrated plugin kubernetes.io/aws-ebs", After: "left to CSI", Expected: true, Why: "CSI migration: this kubelet leaves the plugin's volumes to CSI now"},
				{Object: "Node/ip-10-0-0-16.ec2.internal", Field: "allocatable attachable-volumes-aws-ebs", Before: "39", Expected: true, Why: "the limit of the in-tree plugin went with the plugin: that of the CSI driver stands in the CSINode"},
				{Object: "PersistentVolume/pv-0", Field: "migratedTo", After: "ebs.csi.aws.com", Expected: true, Why: "CSI migration: ebs.csi.aws.com takes over what the in-tree plugin made"},
			},
		},
		{
			name: "a driver that did not come back is lost, a volume that moved with its pod is not, one that hangs is",
			change: func(_, a *v1.Snapshot) {
				a.Volumes.CSINodes[0].Drivers = nil
				limit := int32(20)
				a.Volumes.CSINodes[1].Drivers = []v1.CSINodeDriver{{Name: "ebs.csi.aws.com", Limit: &limit}, {Name: "efs.csi.aws.com"}}
				a.Volumes.Attachments[0].Node = "elsewhere"
				a.Volumes.Attachments[1].Attached, a.Volumes.Attachments[1].Error = false, "attaching: timed out"
				a.Volumes.Attachments = append(a.Volumes.Attachments, v1.VolumeAttachment{Name: "csi-9", Volume: "pv-9", Node: "n", Created: t0.Add(-time.Minute)})
			},
			want: []v1.Difference{
				{Object: "CSINode/ip-10-0-0-16.ec2.internal", Field: "driver ebs.csi.aws.com", Before: "registered"},
				{Object: "CSINode/ip-10-0-0-17.ec2.internal", Field: "allocatable of ebs.csi.aws.com", Before: "25", After: "20"},
				{Object: "VolumeAttachment/pv-1@ip-10-0-0-17.ec2.internal", Field: "attached", Before: "true", After: "false"},
				{Object: "VolumeAttachment/pv-1@ip-10-0-0-17.ec2.internal", Field: "error", After: "attaching: timed out"},
				{Object: "CSINode/ip-10-0-0-17.ec2.internal", Field: "driver efs.csi.aws.com", After: "registered", Expected: true, Why: "it was installed outside the migration"},
				{Object: "VolumeAttachment/pv-0@ip-10-0-0-16.ec2.internal", Field: "object", Before: "attached", Expected: true, Why: "its pod moved: it is attached to node elsewhere"},
				{Object: "VolumeAttachment/pv-9@n", Field: "attached", After: "false", Expected: true, Why: "it is being attached: asked for less than 2m0s before"},
			},
		},
		{
			name: "annotations of a Node that kubelets and drivers write are expected, a mark of a cloud controller is not",
			change: func(b, a *v1.Snapshot) {
				b.Nodes[1].Annotations = map[string]string{"csi.volume.kubernetes.io/nodeid": "{}"}
				a.Nodes[0].Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.0.0.11", "node.cloudprovider.kubernetes.io/x": "y"}
				a.Nodes[2].KubeletVersion = "v1.26.1"
				a.Nodes[3].NetworkUnavailable = "True"
			},
			want: []v1.Difference{
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "annotation node.cloudprovider.kubernetes.io/x", After: "y"},
				{Object: "Node/ip-10-0-0-12.ec2.internal", Field: "annotation csi.volume.kubernetes.io/nodeid", Before: "{}"},
				{Object: "Node/ip-10-0-0-14.ec2.internal", Field: "networkUnavailable", After: "True"},
				{Object: "Node/ip-10-0-0-11.ec2.internal", Field: "annotation alpha.kubernetes.io/provided-node-ip", After: "10.0.0.11", Expected: true, Why: "the kubelet writes the address that its flags give it, where its provider is external"},
				{Object: "Node/ip-10-0-0-13.ec2.internal", Field: "kubelet", After: "v1.26.1", Expected: true, Why: "no step of a migration installs a kubelet: it was installed outside the migration"},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := snapshot(), snapshot()
			c.change(before, after)
			if c.direction == "" {
				c.direction = directionForward
			}
			got := inventory(before, after, c.direction, nil)
			if diff := cmp.Diff(c.want, got.Differences); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if !got.Known || got.Nodes.Before != len(before.Nodes) || got.Routes.After != len(after.Cloud.Routes) ||
				got.LoadBalancers.After != len(after.Cloud.LoadBalancers) {
				t.Errorf("counts are %+v", got)
			}
		})
	}
}

func TestARecreatedLoadBalancerHasItsNameAndAnotherIdentity(t *testing.T) {
	after := snapshot()
	after.Cloud.LoadBalancers[0].ID = "other"
	after.Cloud.LoadBalancers[1].Created = t0
	after.Cloud.LoadBalancers[2].Address = "elsewhere"
	got := inventory(snapshot(), after, directionForward, nil).LoadBalancers
	if want := (v1.LoadBalancerDiff{Before: 4, After: 4, Recreated: 2, AddressChanged: 1}); got != want {
		t.Errorf("load balancers are %+v, want %+v", got, want)
	}
}

func TestARecreatedNodeIsCounted(t *testing.T) {
	after := snapshot()
	after.Nodes[0].UID, after.Nodes[1].ProviderID = "other", "aws:///us-east-1b/i-1"
	got := inventory(snapshot(), after, directionForward, nil).Nodes
	if want := (v1.NodeDiff{Before: 8, After: 8, Recreated: 1, ChangedProviderID: 1}); got != want {
		t.Errorf("nodes are %+v, want %+v", got, want)
	}
}

func TestPartsThatCannotBeComparedAreUnknown(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(before, after *v1.Snapshot)
		want   []string
	}{
		{"a snapshot of an older version", func(b, _ *v1.Snapshot) { b.Counts, b.Endpoints, b.Volumes = nil, nil, nil }, []string{
			"endpointslices before: it was not gathered by the version of transplant that took the snapshot",
			"persistentvolumeclaims before: it was not gathered by the version of transplant that took the snapshot",
			"persistentvolumes before: it was not gathered by the version of transplant that took the snapshot",
			"volumeattachments before: it was not gathered by the version of transplant that took the snapshot",
		}},
		{"lists that are forbidden now", func(_, a *v1.Snapshot) {
			a.Errors = []v1.GatherError{{Fact: "endpoints", Error: "forbidden"}, {Fact: "volumes/csinodes", Error: "forbidden"}}
			a.Endpoints, a.Volumes.CSINodes = nil, nil
		}, []string{"endpointslices after: forbidden", "csinodes after: forbidden"}},
		{"no storage at all", func(_, a *v1.Snapshot) {
			a.Errors, a.Volumes = []v1.GatherError{{Fact: "volumes", Error: "no API"}}, nil
		}, []string{
			"persistentvolumeclaims after: no API", "persistentvolumes after: no API", "volumeattachments after: no API", "csinodes after: no API",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := migration()
			c.change(in.Before, in.After)
			r := Build(in)
			if diff := cmp.Diff(c.want, r.Inventory.Unknown); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			if len(r.Inventory.Differences) > 0 || r.Result != v1.ResultUnknown {
				t.Errorf("what is unknown counts as different: %+v; result %s", r.Inventory.Differences, r.Result)
			}
		})
	}
}

func TestANodeThatWasGivenUpOrReplacedMayBeGone(t *testing.T) {
	in := migration()
	lost, replaced, deleted := in.Before.Nodes[0].Name, in.Before.Nodes[1].Name, in.Before.Nodes[2].Name
	in.After.Nodes = in.After.Nodes[3:]
	in.Journal.Without = []v1.HostOut{{Name: "cp-1", Node: lost, By: "ops", At: t0, Evidence: []string{"no answer", "its node is not Ready"}}}
	in.Journal.Rollback = &v1.Plan{Steps: []v1.Step{{ID: "await/cp-2", Await: &v1.Await{NodeGone: replaced}}}}
	r := Build(in)
	why := map[string]string{}
	for _, d := range r.Inventory.Differences {
		if d.Field == fieldObject {
			why[d.Object] = d.Why
		}
	}
	want := map[string]string{
		"Node/" + lost:     "its host cp-1 was gone for good, and ops excluded it from the migration",
		"Node/" + replaced: "its host was replaced, as the plan says",
		"Node/" + deleted:  "",
	}
	for object, w := range want {
		if have, ok := why[object]; !ok || have != w {
			t.Errorf("%s: %v %q, want %q", object, ok, have, w)
		}
	}
	for format, write := range map[string]func() string{"markdown": func() string { return markdown(r) }, "html": func() string {
		var b strings.Builder
		if err := writeHTML(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}} {
		for _, says := range []string{"Hosts that were excluded", "cp-1", "no answer; its node is not Ready", withoutHint} {
			if text := write(); !strings.Contains(text, says) {
				t.Errorf("%s does not say %q", format, says)
			}
		}
	}
}

func TestANodeThatWasGivenUpAndIsStillThereExplainsWhatItCosts(t *testing.T) {
	in := migration()
	lost := &in.After.Nodes[0]
	in.Journal.Without = []v1.HostOut{{Name: "cp-1", Node: lost.Name, By: "ops", At: t0}}
	lost.Ready, lost.Taints = "Unknown", []string{"node.kubernetes.io/unreachable=:NoExecute"}
	for _, d := range Build(in).Inventory.Differences {
		if !d.Expected {
			t.Errorf("nothing explains %s %s: %q, then %q", d.Object, d.Field, d.Before, d.After)
		}
	}
}
