package report

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// t0 is when the runs of these tests begin.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return t0.Add(time.Duration(seconds * float64(time.Second))).Round(time.Millisecond)
}

func atp(seconds float64) *time.Time {
	t := at(seconds)
	return &t
}

const lease = "cloud-provider-extraction-migration"

var (
	inTreeLoops = []string{"cloud-node-lifecycle", "nodeipam", "route", "service"}
	moved       = []string{"cloud-node-lifecycle", "route", "service"}
)

// run is a migration of three hosts that is written down as it goes: 45 steps, and four changes of owner.
type run struct {
	now     float64
	pids    map[string]int
	nextPID int
	in      Input
	holders map[string]string
	terms   map[string]int32
	looked  map[string]float64
	failing map[string]bool
}

func who(component, host string) string { return component + "@" + host }

func (r *run) event(e v1.OwnershipEvent, id string) {
	e.Time, e.Began = at(r.now), atp(r.now-0.004)
	if last, ok := r.looked[id]; ok {
		if !r.failing[id] {
			last = max(last, r.now-0.104)
		}
		e.Looked, r.looked[id] = atp(last), last
	}
	r.failing[id] = e.Error != ""
	if e.Error == "" {
		r.looked[id] = r.now - 0.004
	}
	r.in.Events = append(r.in.Events, e)
}

func (r *run) process(component, host string, ended bool) {
	pid := r.pids[who(component, host)]
	r.event(
		v1.OwnershipEvent{Source: v1.SourceProcess, Component: component, Host: host, PID: pid, StartTicks: uint64(pid) * 11, Ended: ended},
		"p"+who(component, host),
	)
}

func (r *run) start(component, host string) {
	r.nextPID++
	r.pids[who(component, host)] = 4000 + r.nextPID
	r.process(component, host, false)
}

func (r *run) scrape(component, host string, loops []string, leads ...string) {
	e := v1.OwnershipEvent{Source: v1.SourceScrape, Component: component, Host: host, Loops: loops, Leads: leads}
	if len(loops) > 0 {
		e.Series = synced(uint64(100 + r.now))
	}
	r.event(e, "s"+who(component, host))
}

// synced are the series of a manager that has synced nodes so often, without an error.
func synced(n uint64) []v1.Series {
	return []v1.Series{{Name: "nodesync_error_total"}, {Name: "nodesync_latency_seconds", Count: n, Sum: float64(n) / 5, Within60: &n}}
}

func (r *run) holds(name, holder string) {
	e := v1.OwnershipEvent{Source: v1.SourceLease, Lease: name, Holder: holder, Renewed: atp(r.now)}
	if r.holders[name] != "" {
		e.PreviousRenewed = atp(r.now - 0.31)
	}
	if holder != "" {
		r.terms[name]++
	}
	e.Transitions, r.holders[name] = r.terms[name], holder
	r.event(e, name)
}

// step adds a step to the plan and its record, which lasts that long unless do takes its time.
func (r *run) step(phase, id, title, host string, seconds float64, do func() []v1.HandoverRecord) {
	rec := v1.StepRecord{ID: id, Started: at(r.now), Result: v1.StepResultDone}
	end := r.now + seconds
	if do != nil {
		rec.Handovers = do()
	}
	r.now = max(r.now, end)
	rec.Ended = atp(r.now)
	step := v1.Step{ID: id, Phase: phase, Title: title, Host: host}
	switch {
	case strings.HasPrefix(id, "kubelet@"):
		step.Kind = v1.StepKubelet
	case strings.HasPrefix(id, "external/"):
		step.Kind, step.Component = v1.StepEditManifest, strings.TrimSuffix(strings.TrimPrefix(id, "external/"), "@"+host)
	}
	r.in.Journal.Plan.Steps = append(r.in.Journal.Plan.Steps, step)
	r.in.Journal.Records = append(r.in.Journal.Records, rec)
	r.now += 0.02
}

// restart stops a manager and starts it again on its host. An owner's leases are released, and its successors take them.
func (r *run) restart(component, host string, leases []string, next func()) []v1.HandoverRecord {
	r.now += 0.4
	old := v1.HandoverRecord{Component: component, Host: host, PID: r.pids[who(component, host)], StartTicks: uint64(r.pids[who(component, host)]) * 11}
	r.process(component, host, true)
	r.event(v1.OwnershipEvent{Source: v1.SourceScrape, Component: component, Host: host, Error: "connection refused"}, "s"+who(component, host))
	old.Ended = atp(r.now - 0.02)
	var out []v1.HandoverRecord
	for _, l := range leases {
		r.now += 0.012
		h := old
		h.Lease, h.Holder, h.Released = l, r.holders[l], atp(r.now)
		r.holds(l, "")
		out = append(out, h)
	}
	if next != nil {
		next()
	}
	r.now += 0.5
	r.start(component, host)
	r.now += 1.1
	r.scrape(component, host, nil)
	return out
}

// takes lets managers win the leases of an owner that has ended.
func (r *run) takes(component, host, holder string, main bool, loops []string, after float64, extra ...string) {
	if main {
		r.now += after
		r.holds(component, holder)
	}
	r.now += 0.09
	leads := []string{component}
	if len(extra) > 0 {
		r.holds(lease, holder)
		leads = append(leads, lease)
		r.now += 0.21
	}
	r.scrape(component, host, loops, leads...)
}

const (
	k = component.KCM
	c = component.CCM
)

// migration is a whole migration without a flaw.
func migration() Input {
	r := &run{
		now:     0.2,
		pids:    map[string]int{},
		holders: map[string]string{},
		terms:   map[string]int32{k: 3, c: 0, lease: 0},
		looked:  map[string]float64{},
		failing: map[string]bool{},
	}
	r.in = Input{
		Journal: v1.Journal{
			TypeMeta: v1.Type(v1.KindJournal), Run: "r-20260301-120000", Started: t0, Phase: "applied",
			Plan: v1.Plan{
				Strategy:  "leader-migration",
				Direction: "forward",
				Options:   v1.Options{LeaseName: lease, RenewDeadline: "5s"},
				Cluster:   v1.Cluster{Name: "lab", UID: "7c1d1a52-9d0e-4c8a-8b53-f1f2a3a4a5a6", Server: "https://127.10.20.1:6443", Version: "v1.26.0"},
				Findings: []v1.Finding{
					{Code: "GAP-001", Outcome: v1.Warn, Summary: "the in-tree manager is not fenced: if it is paused and resumed during the handover, it can still write",
						Accepted: ""},
				},
			},
		},
		Keys: map[string]ownership.Owner{}, Before: snapshot(), After: snapshot(), Calls: []v1.CloudCall{}, ToolVersion: "v0.1.0", Now: at(75),
	}
	r.in.After.TakenAt = at(60)
	r.in.After.Managers = []v1.Manager{{Component: c, Host: "cp-1", Series: synced(190)}}
	hosts := []string{"cp-1", "cp-2", "cp-3"}
	for _, h := range hosts {
		r.in.Keys["AKIALAB"+strings.ToUpper(strings.ReplaceAll(h, "-", ""))+"KCM"] = ownership.Owner{Component: k, Host: h}
		r.in.Keys["AKIALAB"+strings.ToUpper(strings.ReplaceAll(h, "-", ""))+"CCM"] = ownership.Owner{Component: c, Host: h}
		r.start(k, h)
		r.scrape(k, h, map[string][]string{"cp-3": inTreeLoops}[h], map[string][]string{"cp-3": {k}}[h]...)
	}
	r.holds(k, "cp-3_1")
	r.holds(c, "")
	r.holds(lease, "")
	r.prepare(hosts)
	r.enable()
	r.handOver()
	r.kubelets(hosts)
	r.finish()
	for _, h := range hosts { // heartbeats at the end
		r.process(k, h, false)
		r.process(c, h, false)
	}
	r.scrape(k, "cp-1", []string{"nodeipam"}, k)
	r.scrape(c, "cp-1", append([]string{"cloud-node"}, moved...), c)
	for _, h := range hosts[1:] {
		r.scrape(k, h, nil)
		r.scrape(c, h, nil)
	}
	r.in.Journal.Ended = atp(r.now)
	r.in.Before.TakenAt = at(-5)
	r.call(5, "CP3KCM", "ec2", "CreateRoute")
	r.call(6, "CP3KCM", "elb", "ModifyLoadBalancerAttributes")
	r.call(r.now-2, "CP1CCM", "elb", "ModifyLoadBalancerAttributes")
	r.in.Probes = probes()
	return r.in
}

func (r *run) call(at0 float64, key, service, action string) {
	r.in.Calls = append(r.in.Calls, v1.CloudCall{
		Seq: int64(len(r.in.Calls) + 1), Key: "AKIALAB" + key, Service: service, Action: action, Mutating: true, Arrived: at(at0), Effect: atp(at0 + 0.01),
	})
}

func (r *run) prepare(hosts []string) {
	r.step("prepare", "ensure/Role", "Let the managers write the migration lease (Role kube-system/transplant-migration)", "", 0.05, nil)
	r.step("prepare", "ensure/RoleBinding", "Bind that role to both managers", "", 0.04, nil)
	r.step("prepare", "ensure/ServiceAccount", "Create the cloud-controller-manager's account", "", 0.04, nil)
	r.step("prepare", "ensure/ClusterRole", "Create the cloud-controller-manager's roles", "", 0.08, nil)
	for _, h := range hosts {
		r.step("prepare", "write/kcm-migration@"+h, "Write the leader migration config of kube-controller-manager on "+h, h, 0.03, nil)
		r.step("prepare", "write/ccm-migration@"+h, "Write the leader migration config of cloud-controller-manager on "+h, h, 0.03, nil)
		r.step("prepare", "write/cloud-config@"+h, "Derive the external provider's cloud config on "+h, h, 0.04, nil)
	}
}

func (r *run) enable() {
	for _, h := range []string{"cp-1", "cp-2", "cp-3"} {
		r.step("leader-migration", "migration/"+k+"@"+h, "Switch on leader migration in kube-controller-manager on "+h, h, 3.1, func() []v1.HandoverRecord {
			if h != "cp-3" {
				return r.restart(k, h, nil, nil)
			}
			return r.restart(k, h, []string{k}, func() { r.takes(k, "cp-1", "cp-1_2", true, inTreeLoops, 0.31, lease) })
		})
		r.step("leader-migration", "verify/migration@"+h, "Look at owners after "+h, h, 0.3, nil)
	}
}

func (r *run) handOver() {
	for _, h := range []string{"cp-2", "cp-3", "cp-1"} {
		r.step("handover", "ccm/"+c+"@"+h, "Start cloud-controller-manager on "+h, h, 2.6, func() []v1.HandoverRecord {
			r.now += 0.6
			r.start(c, h)
			r.now += 1.2
			if h == "cp-2" {
				r.holds(c, "cp-2_9")
				r.now += 0.1
				r.scrape(c, h, []string{"cloud-node"}, c)
			} else {
				r.scrape(c, h, nil)
			}
			return nil
		})
		r.step("handover", "external/"+k+"@"+h, "Make kube-controller-manager external on "+h, h, 3.4, func() []v1.HandoverRecord {
			if h != "cp-1" {
				return r.restart(k, h, nil, nil)
			}
			return r.restart(k, h, []string{k, lease}, func() {
				r.takes(c, "cp-2", "cp-2_9", false, append([]string{"cloud-node"}, moved...), 0, lease)
				r.takes(k, "cp-3", "cp-3_5", true, []string{"nodeipam"}, 0.17)
			})
		})
		r.step("handover", "external/kube-apiserver@"+h, "Make kube-apiserver external on "+h, h, 2.8, nil)
	}
}

func (r *run) kubelets(hosts []string) {
	for _, h := range append(hosts, "worker-1", "worker-2", "worker-3", "worker-4", "worker-5") {
		r.step("kubelets", "kubelet@"+h, "Make the kubelet external on "+h, h, 0.5, nil)
	}
	r.step("verify", "verify/owners", "Each loop has exactly one owner", "", 0.4, nil)
	r.step("verify", "verify/inventory", "The inventory is what it was", "", 0.9, nil)
}

func (r *run) finish() {
	for _, h := range []string{"cp-1", "cp-3", "cp-2"} {
		r.step("finish", "finish/"+c+"@"+h, "Switch off leader migration in cloud-controller-manager on "+h, h, 2.4, func() []v1.HandoverRecord {
			if h != "cp-2" {
				return r.restart(c, h, nil, nil)
			}
			return r.restart(c, h, []string{c, lease}, func() { r.takes(c, "cp-1", "cp-1_11", true, append([]string{"cloud-node"}, moved...), 0.62) })
		})
	}
	r.step("finish", "restart/"+k+"@cp-3", "Restore the election timing of kube-controller-manager on cp-3", "cp-3", 3, func() []v1.HandoverRecord {
		return r.restart(k, "cp-3", []string{k}, func() { r.takes(k, "cp-1", "cp-1_7", true, []string{"nodeipam"}, 1.24) })
	})
	r.step("finish", "delete/lease", "Delete the migration lease", "", 0.05, nil)
	for _, h := range []string{"cp-1", "cp-2", "cp-3"} {
		r.step("finish", "remove/kcm-migration@"+h, "Remove the leader migration config on "+h, h, 0.02, nil)
	}
}

// snapshot is an inventory of eight nodes, four Services with their load balancers, and a route for each node.
func snapshot() *v1.Snapshot {
	s := &v1.Snapshot{TypeMeta: v1.Type(v1.KindSnapshot), TakenAt: t0, Cloud: &v1.CloudInventory{Provider: "aws"}, Volumes: &v1.Volumes{}}
	s.Counts = map[string]int{"endpointslices": 4, "persistentvolumes": 3, "persistentvolumeclaims": 2, "volumeattachments": 2}
	for i := range 8 {
		name, id := fmt.Sprintf("ip-10-0-0-%d.ec2.internal", 11+i), fmt.Sprintf("i-%08x", 0xa0+i)
		s.Nodes = append(s.Nodes, v1.Node{
			Name:       name,
			UID:        fmt.Sprintf("uid-%d", i),
			ProviderID: "aws:///us-east-1a/" + id,
			Ready:      "True",
			Labels:     map[string]string{"kubernetes.io/hostname": name},
			Addresses: []string{
				fmt.Sprintf("InternalIP=10.0.0.%d", 11+i),
				"Hostname=" + name,
			},
			PodCIDRs: []string{fmt.Sprintf("10.200.%d.0/24", i)},
			Created:  t0.Add(-time.Hour),
		})
		s.Cloud.Instances = append(s.Cloud.Instances, v1.CloudInstance{Node: name, ID: id, State: "running", Found: true})
		s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: fmt.Sprintf("10.200.%d.0/24", i), Target: id, State: "active"})
	}
	for i, name := range []string{"web", "api", "internal", "annotated"} {
		lb := v1.LoadBalancer{
			ID:   fmt.Sprintf("a%031d@%s", i, t0.Add(-time.Hour).Format(time.RFC3339)),
			Name: fmt.Sprintf("a%031d", i),
			Kind: "classic",
			Address: fmt.Sprintf(
				"a%d.us-east-1.elb.amazonaws.com",
				i,
			),
			Created:   t0.Add(-time.Hour),
			Listeners: []string{"80/TCP->30080"},
			Members:   []string{"i-000000a3", "i-000000a4"},
		}
		s.Cloud.LoadBalancers = append(s.Cloud.LoadBalancers, lb)
		s.Services = append(s.Services, v1.Service{
			Namespace: "shop", Name: name, UID: fmt.Sprintf("svc-%d", i), Addresses: []string{lb.Address}, Ports: []string{"80/TCP->30080"},
			Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"},
		})
		s.Endpoints = append(s.Endpoints, v1.ServiceEndpoints{Service: "shop/" + name, Ready: 2, Total: 2})
	}
	store(s)
	return s
}

// store is a database with two volumes, of the in-tree plugin and of CSI, and one that nobody uses.
func store(s *v1.Snapshot) {
	s.Volumes.Claims = []v1.VolumeClaim{{Ref: "shop/data-0", Volume: "pv-0", Phase: "Bound"}, {Ref: "shop/data-1", Volume: "pv-1", Phase: "Bound"}}
	s.Volumes.PersistentVolumes = []v1.PersistentVolume{
		{Name: "pv-0", Plugin: "kubernetes.io/aws-ebs", Handle: "aws://us-east-1a/vol-0", Phase: "Bound", Claim: "shop/data-0", ReclaimPolicy: "Delete"},
		{Name: "pv-1", Driver: "ebs.csi.aws.com", Handle: "vol-1", Phase: "Bound", Claim: "shop/data-1", ReclaimPolicy: "Delete"},
		{Name: "pv-2", Driver: "ebs.csi.aws.com", Handle: "vol-2", Phase: "Released", Claim: "shop/old", ReclaimPolicy: "Retain"},
	}
	for i := range 2 {
		node := s.Nodes[5+i].Name
		limit := int32(25)
		s.Volumes.CSINodes = append(s.Volumes.CSINodes, v1.CSINode{Name: node, Drivers: []v1.CSINodeDriver{{Name: "ebs.csi.aws.com", Limit: &limit}}})
		s.Volumes.Attachments = append(s.Volumes.Attachments, v1.VolumeAttachment{
			Name: fmt.Sprintf("csi-%d", i), Attacher: "ebs.csi.aws.com", Node: node, Volume: fmt.Sprintf("pv-%d", i), Attached: true, Created: t0.Add(-time.Hour),
		})
		s.Nodes[5+i].Attachable = map[string]string{"attachable-volumes-aws-ebs": "39"}
	}
}
