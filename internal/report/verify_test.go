package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// verifyInput is the verification of the story's migration, right after it.
func verifyInput(change func(*Input)) VerifyInput {
	in := migration()
	if change != nil {
		change(&in)
	}
	return VerifyInput{
		Report: Build(in), Phase: in.Journal.Phase, OwnersLine: "service: cloud-controller-manager@cp-1", Errors: in.After.Errors,
		CloudBefore: in.Before.Cloud != nil, CloudNow: in.After.Cloud != nil,
	}
}

func outcomes(v v1.Verification) map[string]v1.Outcome {
	out := map[string]v1.Outcome{}
	for _, c := range v.Checks {
		if c.Outcome != v1.Pass {
			out[c.Name] = c.Outcome
		}
	}
	return out
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		with   func(*VerifyInput)
		result string
		want   map[string]v1.Outcome // of the checks that did not pass
		says   []string              // in the problems
	}{
		{name: "everything is as it was", result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "a manager that fails since", change: func(in *Input) {
			series := synced(190)
			series[0].Sum = 3
			in.After.Managers[0].Series = series
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"objectives": v1.Fail},
			says: []string{"nodesync_error_total grew by up to 3 in 15 minutes (cloud-controller-manager@cp-1), and less than 1 is the objective"}},
		{name: "a load balancer that cannot be kept since", change: func(in *Input) {
			in.After.Services[0].Failing = &v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "403 UnauthorizedOperation", Last: at(50)}
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"services": v1.Fail}, says: []string{"failing was empty and is SyncLoadBalancerFailed: 403 UnauthorizedOperation"}},
		{name: "one that could not be kept before", change: func(in *Input) {
			in.Before.Services[0].Failing = &v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "quota", Last: at(-60)}
			in.After.Services[0].Failing = &v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "quota", Last: at(50)}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "one that failed before, of which nothing was said since", change: func(in *Input) {
			in.After.Services[0].Failing = &v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "quota", Last: at(-60)}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "managers without those series", change: func(in *Input) { in.After.Managers = nil }, result: v1.ResultOK, want: map[string]v1.Outcome{"objectives": v1.Skip}},
		{name: "in the middle", with: func(in *VerifyInput) { in.Phase = v1.RunApplying }, result: v1.ResultFailed, want: map[string]v1.Outcome{"finished": v1.Fail},
			says: []string{"is not finished (applying)"}},
		{name: "a loop with two owners", with: func(in *VerifyInput) { in.Owners = "loop route runs in a and in b" }, result: v1.ResultFailed,
			want: map[string]v1.Outcome{"owners": v1.Fail}, says: []string{"loop route runs in a and in b"}},
		{name: "a node that somebody took down, and one that joined", change: func(in *Input) {
			in.After.Nodes = append(in.After.Nodes[1:], v1.Node{Name: "new", Ready: "True"})
			in.After.Volumes.CSINodes = append(in.After.Volumes.CSINodes, v1.CSINode{Name: "new"})
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"nodes": v1.Fail}, says: []string{"Node/ip-10-0-0-11.ec2.internal is gone (event DeletingNode)"},
			with: func(in *VerifyInput) {
				for i := range in.Report.Inventory.Differences {
					in.Report.Inventory.Differences[i].By = "event DeletingNode"
				}
			}},
		{name: "that is accepted", change: func(in *Input) {
			in.After.Nodes = in.After.Nodes[1:]
			in.Accept = map[string]string{"Node/ip-10-0-0-11.*": "taken down by ops"}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "that was accepted during the run", change: func(in *Input) {
			in.After.Nodes = in.After.Nodes[1:]
			in.Journal.Accepted = []v1.AcceptedDifference{{Difference: "Node/ip-10-0-0-11.*", Reason: "taken down by ops"}}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "another field of it is not", change: func(in *Input) {
			in.After.Nodes[0].Taints = []string{"x=:NoSchedule"}
			in.After.Nodes[0].ProviderID = "other"
			in.Accept = map[string]string{"Node/ip-10-0-0-11.ec2.internal taints": "ours"}
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"nodes": v1.Fail}, says: []string{"providerID"}},
		{name: "a kubelet that waits for its serving certificate as it did not before", change: func(in *Input) {
			in.Before.CertificateRequests = []v1.CertificateRequest{
				{Name: "csr-0", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-12.ec2.internal", State: "Pending"},
				{Name: "csr-join", SignerName: "kubernetes.io/kube-apiserver-client-kubelet", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Pending"},
			}
			in.After.CertificateRequests = []v1.CertificateRequest{
				{Name: "csr-1", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Pending", Names: []string{"ip-10-0-0-11.ec2.internal"}},
				{Name: "csr-2", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-12.ec2.internal", State: "Pending"},
			}
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"nodes": v1.Fail},
			says: []string{"Node/ip-10-0-0-11.ec2.internal: servingCertificate was no request waits and is csr-1 waits (kubectl certificate approve csr-1)"}},
		{name: "a kubelet that asks for the name of another machine", change: func(in *Input) {
			in.After.CertificateRequests = []v1.CertificateRequest{
				{Name: "csr-1", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Pending", Names: []string{"api.example.com"}},
			}
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"nodes": v1.Fail},
			says: []string{`"csr-1" waits; do not approve it before you know why: it asks for api.example.com, which Node ip-10-0-0-11.ec2.internal does not have`}},
		{name: "a kubelet whose request was denied", change: func(in *Input) {
			in.After.CertificateRequests = []v1.CertificateRequest{{Name: "csr-1", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Denied"}}
		}, result: v1.ResultFailed, want: map[string]v1.Outcome{"nodes": v1.Fail}, says: []string{"csr-1 is Denied (kubectl delete csr csr-1: the kubelet asks again)"}},
		{name: "requests that nobody could list before", change: func(in *Input) {
			in.Before.Errors = []v1.GatherError{{Fact: "csrs", Error: "forbidden"}}
			in.After.CertificateRequests = []v1.CertificateRequest{{Name: "csr-1", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Pending"}}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "a request that is approved, and its certificate on its way", change: func(in *Input) {
			in.After.CertificateRequests = []v1.CertificateRequest{{Name: "csr-1", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:ip-10-0-0-11.ec2.internal", State: "Approved"}}
		}, result: v1.ResultOK, want: map[string]v1.Outcome{}},
		{name: "a Service that has no ready endpoint", change: func(in *Input) { in.After.Endpoints[0].Ready = 0 }, result: v1.ResultFailed,
			want: map[string]v1.Outcome{"endpoints": v1.Fail}, says: []string{"Service/shop/web: endpoints was 2 of 2 ready and is 0 of 2 ready"}},
		{name: "endpoints and volumes that nobody may list", change: func(in *Input) {
			in.After.Errors = []v1.GatherError{{Fact: "endpoints", Error: "forbidden"}, {Fact: "volumes/claims", Error: "forbidden"}, {Fact: "managers/cp-1/kube-controller-manager", Error: "refused"}}
			in.After.Endpoints = nil
		}, result: v1.VerificationUnknown, want: map[string]v1.Outcome{"endpoints": v1.Unknown, "volumes": v1.Unknown, "facts": v1.Unknown},
			says: []string{"endpointslices after: forbidden", "persistentvolumeclaims after: forbidden", "managers/cp-1/kube-controller-manager is unknown: refused"}},
		{name: "nodes that nobody may list", change: func(in *Input) {
			in.After.Errors, in.After.Nodes = []v1.GatherError{{Fact: "nodes", Error: "forbidden"}}, nil
		}, result: v1.VerificationUnknown, want: map[string]v1.Outcome{"nodes": v1.Unknown}, says: []string{"nodes is unknown: forbidden"}},
		{name: "a cloud that was never looked at", change: func(in *Input) { in.Before.Cloud, in.After.Cloud = nil, nil }, result: v1.ResultOK,
			want: map[string]v1.Outcome{"load-balancers": v1.Skip, "routes": v1.Skip}},
		{name: "a cloud that is not looked at now", change: func(in *Input) { in.After.Cloud = nil }, result: v1.VerificationUnknown,
			want: map[string]v1.Outcome{"load-balancers": v1.Unknown, "routes": v1.Unknown}, says: []string{"load-balancers are unknown: give --cloud as apply had it"}},
		{name: "routes that could not be read", change: func(in *Input) {
			in.After.Cloud.Errors, in.After.Errors = []string{"routes: throttled"}, []v1.GatherError{{Fact: "cloud/routes", Error: "throttled"}}
		}, result: v1.VerificationUnknown, want: map[string]v1.Outcome{"routes": v1.Unknown}, says: []string{"cloud/routes is unknown: throttled"}},
		{name: "a load balancer that was recreated", change: func(in *Input) { in.After.Cloud.LoadBalancers[0].ID = "new" }, result: v1.ResultFailed,
			want: map[string]v1.Outcome{"load-balancers": v1.Fail}, says: []string{"identity"}},
		{name: "clients that noticed more than the budget", change: func(in *Input) { in.Probes = badProbes() }, result: v1.ResultFailed,
			want: map[string]v1.Outcome{"disruption": v1.Fail}, says: []string{"the budget is 5 s"}},
		{name: "a run that was not probed", change: func(in *Input) { in.Probes = nil }, result: v1.ResultOK, want: map[string]v1.Outcome{"disruption": v1.Skip}},
		{name: "a host that was excluded and may come back", with: func(in *VerifyInput) { in.Remains = []string{"host cp-2 may come back"} }, result: v1.ResultFailed,
			want: map[string]v1.Outcome{"hosts": v1.Fail}, says: []string{"host cp-2 may come back"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := verifyInput(c.change)
			if c.with != nil {
				c.with(&in)
			}
			v := Verify(in)
			if diff := cmp.Diff(c.want, outcomes(v)); diff != "" || v.Result != c.result {
				t.Errorf("result %s, want %s; checks that did not pass (-want +got):\n%s\n%q", v.Result, c.result, diff, v.Problems)
			}
			for _, s := range c.says {
				mustMention(t, v.Problems, s)
			}
			if (v.Result == v1.ResultOK) != (len(v.Problems) == 0) {
				t.Errorf("result %s with the problems %q", v.Result, v.Problems)
			}
		})
	}
}

func TestWhatAValueOfAcceptMeans(t *testing.T) {
	differences := []v1.Difference{
		{Object: "Node/spot-1", Field: "taints"}, {Object: "Service/shop/web", Field: "uid"}, {Object: "Node/gone", Field: fieldObject, Expected: true},
	}
	for key, want := range map[string]bool{
		"Node/spot-1": true, "Node/spot-1 taints": true, "Node/spot-1 labels": false, "Node/spot-*": true, "Node/* taints": true, "Node/* uid": false,
		"Service/*/web": true, "Service/*": false, "Node/gone": false, "Node/nowhere": false, "Node/[": false,
	} {
		if got := IsMet(key, differences); got != want {
			t.Errorf("%s is met: %t", key, got)
		}
	}
}

// TestAReportCallsNothingLostThatWasAccepted also asks that what was accepted is not hidden: it is in the sentence, on
// the page and in the text, each with its reason, who gave it and when.
func TestAReportCallsNothingLostThatWasAccepted(t *testing.T) {
	in := migration()
	in.After.Nodes = in.After.Nodes[1:]
	in.Journal.Accepted = []v1.AcceptedDifference{
		{Difference: "Node/ip-10-0-0-11.*", Reason: "taken down by ops", By: "anna@desk", At: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)},
	}
	r := Build(in)
	if r.Result != v1.ResultOK || !strings.HasSuffix(r.Sentence, "; 1 object is not as before, which was accepted.") {
		t.Errorf("the result is %s: %s", r.Result, r.Sentence)
	}
	for _, format := range []string{"markdown", "html"} {
		var out strings.Builder
		if err := Write(&out, r, format); err != nil {
			t.Fatal(err)
		}
		mustMention(t, []string{out.String()}, "taken down by ops (anna@desk, 2026-03-01 11:00 UTC)")
	}
	in.Accept = map[string]string{"Node/ip-10-0-0-11.ec2.internal": "given now: --password=hunter2hunter2"}
	for _, d := range Build(in).Inventory.Differences {
		if !d.Expected && (!strings.HasPrefix(d.Accepted, "given now: ") || strings.Contains(d.Accepted, "hunter2")) {
			t.Errorf("accepted because %s", d.Accepted)
		}
	}
}
