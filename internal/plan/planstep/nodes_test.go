package planstep

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// nodesPlan has a control plane of one host and four workers, of which one is the canary and two are a batch.
func nodesPlan() *v1.Plan {
	kubelet := func(host, batch string, canary bool) v1.Step {
		return v1.Step{
			ID: "external/kubelet@" + host, Phase: PhaseKubelets, Kind: v1.StepKubelet, Host: host, Component: component.Kubelet,
			Batch: batch, Canary: canary,
		}
	}
	return &v1.Plan{Steps: []v1.Step{
		{ID: "external/kube-controller-manager@cp-1", Phase: PhaseHandover, Kind: v1.StepEditManifest, Host: "cp-1", Component: component.KCM},
		kubelet("cp-1", "", false),
		kubelet("worker-1", "", true),
		kubelet("worker-2", "b", false),
		kubelet("worker-3", "b", false),
		kubelet("worker-4", "", false),
		{ID: "initialize/Node/n-2", Phase: PhaseNodes, Kind: v1.StepInitializeNode, Ref: "Node/n-2"},
		{ID: "initialize/Node/n-3", Phase: PhaseNodes, Kind: v1.StepInitializeNode, Ref: "Node/n-3"},
		{ID: "verify/handed-over", Phase: PhaseVerify, Kind: v1.StepVerify},
	}}
}

// ended are records of the first n steps of the plan, and of further ones.
func ended(n int, also ...string) []v1.StepRecord {
	var out []v1.StepRecord
	for _, s := range nodesPlan().Steps[:n] {
		out = append(out, v1.StepRecord{ID: s.ID, Result: v1.StepResultDone})
	}
	for _, id := range also {
		out = append(out, v1.StepRecord{ID: id, Result: v1.StepResultDone})
	}
	return out
}

func TestAPartOfAPlanForSomeNodes(t *testing.T) {
	begun := append(ended(3), v1.StepRecord{ID: "external/kubelet@worker-4", Result: v1.StepResultStarted})
	for _, c := range []struct {
		name    string
		records []v1.StepRecord
		hosts   []string
		steps   []string
		until   string
		later   []string
		says    string
	}{
		{name: "a worker", records: ended(3), hosts: []string{"worker-3"}, steps: []string{"external/kubelet@worker-3"}, until: "external/kubelet@worker-3",
			later: []string{"external/kubelet@worker-2", "external/kubelet@worker-4"}},
		{name: "two, in the order of the plan", records: ended(3), hosts: []string{"worker-4", "worker-2"},
			steps: []string{"external/kubelet@worker-2", "external/kubelet@worker-4"}, until: "external/kubelet@worker-4",
			later: []string{"external/kubelet@worker-3"}},
		{name: "the canary and one more", records: ended(2), hosts: []string{"worker-1", "worker-4"},
			steps: []string{"external/kubelet@worker-1", "external/kubelet@worker-4"}, until: "external/kubelet@worker-4",
			later: []string{"external/kubelet@worker-2", "external/kubelet@worker-3"}},
		{name: "one of two is done", records: ended(4), hosts: []string{"worker-2", "worker-3"}, steps: []string{"external/kubelet@worker-3"},
			until: "external/kubelet@worker-3", later: []string{"external/kubelet@worker-4"}},
		{name: "what is left is in a later phase", records: ended(6), hosts: []string{"worker-3"}, steps: []string{"initialize/Node/n-3"},
			until: "initialize/Node/n-3", later: []string{"initialize/Node/n-2"}},
		{name: "before the canary", records: ended(2), hosts: []string{"worker-2"}, says: "worker-1 is the first worker, and no other one changes before it"},
		{name: "before the control plane", records: ended(0), hosts: []string{"worker-1"},
			says: "step external/kube-controller-manager@cp-1 comes before those of worker-1 and is not done"},
		{name: "before a kubelet of the control plane", records: ended(1), hosts: []string{"worker-1"},
			says: "run transplant apply --until external/kubelet@cp-1 first"},
		{name: "another one went wrong", records: begun, hosts: []string{"worker-2"}, says: "step external/kubelet@worker-4 was begun and is not finished"},
		{name: "the one that went wrong", records: begun, hosts: []string{"worker-4"}, steps: []string{"external/kubelet@worker-4"},
			until: "external/kubelet@worker-4", later: []string{"external/kubelet@worker-2", "external/kubelet@worker-3"}},
		{name: "others still need their kubelets", records: ended(3, "external/kubelet@worker-2"), hosts: []string{"worker-2"},
			says: "step external/kubelet@worker-3 comes before those of worker-2"},
		{name: "nothing is left", records: ended(8), hosts: []string{"worker-2", "worker-4"}, says: "nothing is left to do on worker-2, worker-4"},
	} {
		var named []NamedNode
		for _, h := range c.hosts {
			named = append(named, NamedNode{Host: h, Node: strings.Replace(h, "worker", "n", 1)})
		}
		part, err := ForNodes(nodesPlan(), c.records, named)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			continue
		}
		if err != nil || !slices.Equal(part.Steps, c.steps) || part.Until != c.until || len(part.Later) != len(c.later) {
			t.Errorf("%s: %+v, %v", c.name, part, err)
		}
		for _, id := range c.later {
			if !part.Later[id] {
				t.Errorf("%s: %s is not left for later: %v", c.name, id, part.Later)
			}
		}
	}
}

// TestWorkersWaitForTheCanariesOfAllKinds: worker-2 is one here as well, the first of another kind.
func TestWorkersWaitForTheCanariesOfAllKinds(t *testing.T) {
	p := nodesPlan()
	p.Steps[3].Canary, p.Steps[3].Batch = true, ""
	if last := LastCanary(p); last != "external/kubelet@worker-2" {
		t.Errorf("the last canary is %q", last)
	}
	const kind = " is the first worker of its kind, and the workers after it in the plan wait for it: name it, too"
	for _, c := range []struct {
		name  string
		done  int
		hosts []string
		until string
		says  string
	}{
		{"the first canary alone", 2, []string{"worker-1"}, "external/kubelet@worker-1", ""},
		{"both canaries", 2, []string{"worker-1", "worker-2"}, "external/kubelet@worker-2", ""},
		{"the second canary before the first", 2, []string{"worker-2"}, "", "worker-1" + kind},
		{"another worker before the second canary", 3, []string{"worker-3"}, "", "worker-2" + kind},
		{"another worker behind both", 4, []string{"worker-3"}, "external/kubelet@worker-3", ""},
	} {
		var named []NamedNode
		for _, h := range c.hosts {
			named = append(named, NamedNode{Host: h, Node: h})
		}
		part, err := ForNodes(p, ended(c.done), named)
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && err != nil || part.Until != c.until {
			t.Errorf("%s: until %q, %v", c.name, part.Until, err)
		}
	}
}

func TestWorkersHaveNothingOfAControlPlane(t *testing.T) {
	if have := Workers(nodesPlan()); !slices.Equal(have, []string{"worker-1", "worker-2", "worker-3", "worker-4"}) {
		t.Errorf("%v", have)
	}
	var err error = &UnknownNodeError{Name: "worker-9"}
	var unknown *UnknownNodeError
	if !errors.As(err, &unknown) || err.Error() != "--node worker-9: the plan changes no worker of this name" {
		t.Error(err)
	}
}

func TestAPathWithoutTheNameOfItsHost(t *testing.T) {
	for _, c := range [][3]string{
		{"/etc/kubernetes/w-1/kubelet.conf", "w-1", "/etc/kubernetes/{host}/kubelet.conf"},
		{"/etc/kubelet_w-1.conf", "w-1", "/etc/kubelet_{host}.conf"},
		{"/etc/w-1_kubelet/w-1.conf", "w-1", "/etc/{host}_kubelet/{host}.conf"},
		{"/etc/w-1_w-1.conf", "w-1", "/etc/{host}_{host}.conf"},
		{"/etc/host/host.conf", "host", "/etc/{host}/{host}.conf"},
		{"/etc/w-10.conf", "w-1", "/etc/w-10.conf"},
		{"/etc/kubelet.conf", "let", "/etc/kubelet.conf"},
		{"/etc/kubelet.conf", "", "/etc/kubelet.conf"},
	} {
		if have := WithoutHostName(c[0], c[1]); have != c[2] {
			t.Errorf("%s without %q is %s, want %s", c[0], c[1], have, c[2])
		}
	}
}
