package kubelet

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testInstance() *Instance {
	return &Instance{
		ProviderID: "aws:///us-east-1a/i-0001", Zone: "us-east-1a", Region: "us-east-1", InstanceType: "m5.large",
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.11"},
			{Type: corev1.NodeExternalIP, Address: "54.0.0.11"},
			{Type: corev1.NodeInternalDNS, Address: testNode},
			{Type: corev1.NodeHostName, Address: testNode},
		},
	}
}

func flagsFile(flags string) string { return "KUBELET_KUBEADM_ARGS=\"" + flags + "\"\n" }

func TestInTreeKubeletRegistersWhatTheCloudSays(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client, o.Instance = api, testInstance() })
	h.write("var/lib/kubelet/kubeadm-flags.env", flagsFile("--cloud-provider=aws --node-labels=tier=front"))
	h.start()
	n := h.node(api)
	if n.Spec.ProviderID != "aws:///us-east-1a/i-0001" || len(n.Spec.Taints) != 0 {
		t.Errorf("spec: %+v", n.Spec)
	}
	for key, want := range map[string]string{
		"kubernetes.io/hostname": testNode, "tier": "front",
		"topology.kubernetes.io/zone": "us-east-1a", "failure-domain.beta.kubernetes.io/zone": "us-east-1a",
		"topology.kubernetes.io/region": "us-east-1", "failure-domain.beta.kubernetes.io/region": "us-east-1",
		"node.kubernetes.io/instance-type": "m5.large", "beta.kubernetes.io/instance-type": "m5.large",
	} {
		if n.Labels[key] != want {
			t.Errorf("label %s is %q, not %q", key, n.Labels[key], want)
		}
	}
	if d := cmp.Diff(testInstance().Addresses, n.Status.Addresses); d != "" {
		t.Errorf("addresses: %s", d)
	}
	if n.Status.NodeInfo.KubeletVersion != "v1.26.0" || n.Status.Capacity.Pods().Value() != 110 {
		t.Errorf("status: %+v", n.Status)
	}
	if _, set := n.Annotations[annotationProvidedIP]; set {
		t.Error("the node shows an address that nobody gave to its kubelet")
	}
	if f, up := h.Flags(); !up || f.CloudProvider != CloudAWS || f.NodeLabels["tier"] != "front" {
		t.Errorf("flags: %+v", f)
	}
}

func TestExternalKubeletTaintsOnlyANodeThatItCreates(t *testing.T) {
	ctx := context.Background()
	uninitialized := []corev1.Taint{{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}

	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client = api })
	h.write("var/lib/kubelet/kubeadm-flags.env", flagsFile("--cloud-provider external --node-ip 10.0.0.99"))
	h.start()
	n := h.node(api)
	if d := cmp.Diff(uninitialized, n.Spec.Taints); d != "" || n.Spec.ProviderID != "" {
		t.Errorf("taints: %s, provider ID %q", d, n.Spec.ProviderID)
	}
	if n.Annotations[annotationProvidedIP] != "10.0.0.99" {
		t.Errorf("annotations: %v", n.Annotations)
	}
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.99"}, {Type: corev1.NodeHostName, Address: testNode}}
	if d := cmp.Diff(want, n.Status.Addresses); d != "" {
		t.Errorf("addresses: %s", d)
	}

	// What a cloud manager has done stays, whatever this kubelet would say.
	n.Spec.Taints, n.Status.Addresses = nil, testInstance().Addresses
	if _, err := api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.write("var/lib/kubelet/kubeadm-flags.env", flagsFile("--cloud-provider=external"))
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the annotation", func() (bool, any) {
		_, set := h.node(api).Annotations[annotationProvidedIP]
		return !set, h.node(api)
	})
	beat := heartbeatOf(h.node(api))
	eventually(t, "a heartbeat", func() (bool, any) { return heartbeatOf(h.node(api)).After(beat), h.node(api) })
	n = h.node(api)
	if len(n.Spec.Taints) != 0 || cmp.Diff(testInstance().Addresses, n.Status.Addresses) != "" {
		t.Errorf("after the restart: %+v %+v", n.Spec.Taints, n.Status.Addresses)
	}
}

func TestInTreeKubeletTakesTheAddressesBack(t *testing.T) {
	api := newAPI(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "old", Labels: map[string]string{"beta.kubernetes.io/instance-type": "t2.micro", "mine": "x"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "1.2.3.4"}, {Type: corev1.NodeInternalIP, Address: "1.2.3.5"}},
		},
	})
	h := newHost(t, func(o *Options) { o.Client, o.Instance = api, testInstance() })
	h.write("etc/default/kubelet", "KUBELET_EXTRA_ARGS='--cloud-provider=aws'\n")
	h.start()
	eventually(t, "the cloud's addresses", func() (bool, any) {
		return cmp.Diff(testInstance().Addresses, h.node(api).Status.Addresses) == "", h.node(api).Status
	})
	n := h.node(api)
	if n.Labels["beta.kubernetes.io/instance-type"] != "m5.large" || n.Labels["mine"] != "x" || len(n.Spec.Taints) != 1 || n.Spec.ProviderID != "" {
		t.Errorf("a node that was registered before: %+v", n)
	}
}

func heartbeatOf(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

func TestLeaseIsRenewedUntilTheKubeletStops(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client = api })
	h.start()
	renewed := func() time.Time {
		l, err := api.CoordinationV1().Leases("kube-node-lease").Get(context.Background(), testNode, metav1.GetOptions{})
		if err != nil || l.Spec.RenewTime == nil {
			return time.Time{}
		}
		if *l.Spec.HolderIdentity != testNode || *l.Spec.LeaseDurationSeconds != 40 || len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != h.node(api).UID {
			t.Errorf("lease: %+v", l)
		}
		return l.Spec.RenewTime.Time
	}
	eventually(t, "the lease", func() (bool, any) { return !renewed().IsZero(), nil })
	first := renewed()
	eventually(t, "a renewal", func() (bool, any) { return renewed().After(first), first })
	h.StopKubelet()
	last, beat := renewed(), heartbeatOf(h.node(api))
	throughout(t, 4*quick().LeaseRenew, "a stopped kubelet went on", func() (bool, any) {
		return renewed().Equal(last) && heartbeatOf(h.node(api)).Equal(beat), renewed()
	})
	if err := api.CoordinationV1().Leases("kube-node-lease").Delete(context.Background(), testNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new lease", func() (bool, any) { return renewed().After(last), last })
}

func TestConditionThatStaysKeepsTheTimeOfItsLastChange(t *testing.T) {
	before, now := time.Unix(1000, 0), time.Unix(2000, 0)
	have := conditions(nil, before)
	i := slices.IndexFunc(have, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	have[i].Status = corev1.ConditionUnknown
	for _, c := range conditions(have, now) {
		want := before
		if c.Type == corev1.NodeReady {
			want = now
		}
		if !c.LastHeartbeatTime.Time.Equal(now) || !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s: %v, changed %v", c.Type, c.LastHeartbeatTime, c.LastTransitionTime)
		}
	}
}

func TestFlagsAreReadAsTheUnitDoes(t *testing.T) {
	for name, c := range map[string]struct {
		kubeadm, extra, version string
		want                    Flags
		err                     string
	}{
		"nothing":               {},
		"both files, last wins": {kubeadm: flagsFile("--cloud-provider=aws --pod-infra-container-image=x"), extra: "# x\nKUBELET_EXTRA_ARGS=--cloud-provider external\n", want: Flags{CloudProvider: CloudExternal}},
		"labels and IDs": {
			extra: "KUBELET_EXTRA_ARGS=\"--node-labels=a=b,node.kubernetes.io/x=y --provider-id=aws:///z/i-1 --node-ip=10.0.0.1 --hostname-override=h\"",
			want:  Flags{NodeLabels: map[string]string{"a": "b", "node.kubernetes.io/x": "y"}, ProviderID: "aws:///z/i-1", NodeIP: "10.0.0.1", HostnameOverride: "h"},
		},
		"accepted, no effect": {kubeadm: flagsFile("--container-runtime-endpoint=unix:///x --image-credential-provider-config=/a --image-credential-provider-bin-dir=/b")},
		"unknown flag":        {kubeadm: flagsFile("--no-such-flag=1"), err: "unknown flag: --no-such-flag"},
		"a word":              {kubeadm: flagsFile("run"), err: `unknown command "run"`},
		"missing value":       {kubeadm: flagsFile("--cloud-provider"), err: "flag needs an argument"},
		"unknown provider":    {kubeadm: flagsFile("--cloud-provider=azur"), err: `unknown cloud provider "azur"`},
		"in-tree in 1.27":     {kubeadm: flagsFile("--cloud-provider=aws"), version: "v1.27.4", err: "kubelet v1.27.4 has no in-tree provider"},
		"forbidden label":     {kubeadm: flagsFile("--node-labels=node-role.kubernetes.io/master="), err: "not a label that a kubelet may set"},
		"bad address":         {kubeadm: flagsFile("--node-ip=here"), err: `--node-ip "here" is not an IP address`},
		"no assignment":       {kubeadm: "--cloud-provider=aws\n", err: ""},
		"not an assignment":   {kubeadm: "cloud provider\n", err: "line 1 is not NAME=value"},
		"open quote":          {extra: "A=b\nKUBELET_EXTRA_ARGS=\"--x\n", err: "line 2: the quote of KUBELET_EXTRA_ARGS is not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &host{t: t, dir: t.TempDir()}
			if c.kubeadm != "" {
				h.write(kubeadmFlagsFile, c.kubeadm)
			}
			if c.extra != "" {
				h.write(extraFlagsFile, c.extra)
			}
			if c.version == "" {
				c.version = "v1.26.0"
			}
			got, err := readFlags(h.dir, c.version)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Args = nil
			if len(got.NodeLabels) == 0 {
				got.NodeLabels = nil
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
