package traffic

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/elb"
	"github.com/transplant-dev/transplant/lab/awssim/elbv2"
)

// account is one that a test changes.
type account struct {
	mu sync.Mutex
	awssim.State
}

func newAccount() *account {
	return &account{State: awssim.State{
		EC2: ec2.State{Instances: map[string]*ec2.Instance{"i-1": {State: "running"}, "i-2": {State: "stopped"}}},
		ELB: map[string]*elb.LoadBalancer{
			"classic": {DNSName: "Classic.example.com", Instances: []string{"i-2", "i-1"}, Listeners: []elb.Listener{{Port: 80}, {Port: 443}}},
			"empty":   {DNSName: "empty.example.com", Instances: []string{"i-2"}, Listeners: []elb.Listener{{Port: 80}}},
		},
		ELBV2: elbv2.State{
			LoadBalancers: map[string]*elbv2.LoadBalancer{"lb": {DNSName: "network.example.com"}},
			Listeners: map[string]*elbv2.Listener{
				"l": {LoadBalancer: "lb", Port: 80, TargetGroup: "g"}, "of nothing": {LoadBalancer: "x", Port: 81, TargetGroup: "g"},
			},
			TargetGroups: map[string]*elbv2.TargetGroup{"g": {Targets: []elbv2.Target{{ID: "i-1", Port: 30080}}}},
		},
	}}
}

func (a *account) state() awssim.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.State
}

func (a *account) change(how func(*awssim.State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	how(&a.State)
}

func TestALoadBalancerIsReachedWhileItHasAMember(t *testing.T) {
	a := newAccount()
	traffic, err := Start(a.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traffic.Close)
	at := map[string]string{}
	for _, pair := range traffic.ConnectTo() {
		published, address, _ := strings.Cut(pair, "=")
		at[published] = address
	}
	var published []string
	for _, name := range []string{"classic.example.com:443", "classic.example.com:80", "network.example.com:80"} {
		if at[name] != "" {
			published = append(published, name)
		}
	}
	if diff := cmp.Diff([]string{"classic.example.com:443", "classic.example.com:80", "network.example.com:80"}, published); diff != "" || len(at) != 3 {
		t.Fatalf("published are %v (-want +got):\n%s", at, diff)
	}
	for _, c := range []struct {
		what            string
		change          func(*awssim.State)
		classic, second bool
	}{
		{"as it was", func(*awssim.State) {}, true, true},
		{"the member of both is stopped", func(s *awssim.State) { s.EC2.Instances = map[string]*ec2.Instance{"i-1": {State: "stopped"}} }, false, false},
		{"another one runs", func(s *awssim.State) { s.EC2.Instances = map[string]*ec2.Instance{"i-2": {State: "running"}} }, true, false},
		{"the load balancer is deleted", func(s *awssim.State) { s.ELB = nil }, false, false},
	} {
		a.change(c.change)
		reach(t, c.what, at["classic.example.com:80"], c.classic)
		reach(t, c.what, at["network.example.com:80"], c.second)
	}
	if n := traffic.Connections()["classic.example.com:80"]; n < 2 {
		t.Errorf("%d connections were counted", n)
	}
}

// reach waits until an address takes connections, or refuses them.
func reach(t *testing.T, when, address string, want bool) {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) == want {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: %s is reached: %v, want %v", when, address, !want, want)
		}
		<-tick.C
	}
}

func TestAnAccountWithoutLoadBalancersIsAnError(t *testing.T) {
	if traffic, err := Start(func() awssim.State { return awssim.State{} }); err == nil {
		traffic.Close()
		t.Error("it starts")
	}
}
