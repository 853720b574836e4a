// Package traffic decides whether a client reaches the load balancers of a simulated AWS. Each port of each load
// balancer has an address on loopback. It takes connections while the account has the load balancer, its listener and a
// member that runs, and refuses them otherwise.
//
// What is behind an address answers for every member alike: nodes of a lab run no kube-proxy.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/edge"
)

// lookEvery is how often the account is looked at. An outage that is shorter is not made.
const lookEvery = 100 * time.Millisecond

// Traffic are the addresses of an account's load balancers. All methods may be called concurrently.
type Traffic struct {
	account func() awssim.State
	members net.Listener
	doors   map[string]*edge.Edge // by what is published, name:port
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// Start opens an address for each port of each load balancer that there is.
func Start(account func() awssim.State) (t *Traffic, err error) {
	members, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the members of load balancers: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // addresses are open until Close
	t = &Traffic{account: account, members: members, doors: map[string]*edge.Edge{}, stop: stop}
	t.wg.Go(t.answer)
	for published := range serving(account()) {
		door, err := edge.Start(edge.Options{Name: "client->" + published, Listen: "127.0.0.1:0", Target: members.Addr().String()})
		if err != nil {
			t.Close()
			return nil, err
		}
		t.doors[published] = door
	}
	if len(t.doors) == 0 {
		t.Close()
		return nil, errors.New("the account has no load balancer with a member that runs")
	}
	t.wg.Go(func() { t.follow(ctx) })
	return t, nil
}

// ConnectTo are the values of transplant's --probe-connect-to, sorted.
func (t *Traffic) ConnectTo() []string {
	var out []string
	for published, door := range t.doors {
		out = append(out, published+"="+door.Addr())
	}
	slices.Sort(out)
	return out
}

// Connections is how many connections the load balancers took, by name:port.
func (t *Traffic) Connections() map[string]int64 {
	out := map[string]int64{}
	for published, door := range t.doors {
		out[published] = door.Stats().Accepted
	}
	return out
}

// Close ends all addresses, and waits until nothing of them is left.
func (t *Traffic) Close() {
	t.stop()
	for _, door := range t.doors {
		door.Close()
	}
	_ = t.members.Close() // nothing can be done about an error
	t.wg.Wait()
}

// answer takes connections to members and ends them: clients here only connect.
func (t *Traffic) answer() {
	for {
		conn, err := t.members.Accept()
		if err != nil {
			return
		}
		_ = conn.Close() // nothing was sent
	}
}

// follow cuts the addresses of what the account no longer serves, and heals those of what it serves again.
func (t *Traffic) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		served := serving(t.account())
		for published, door := range t.doors {
			switch is := door.Mode() == edge.Healed; {
			case is && !served[published]:
				door.Cut()
			case !is && served[published]:
				_ = door.Heal() //nolint:contextcheck // an edge lives until Close; if the port was taken, it is tried again
			}
		}
	}
}

// serving are the ports at which an account's load balancers have a member that runs, as name:port. Names are published
// in small letters.
func serving(s awssim.State) map[string]bool {
	runs := func(instance string) bool {
		i := s.EC2.Instances[instance]
		return i != nil && i.State == "running"
	}
	out := map[string]bool{}
	add := func(name string, port int) {
		out[strings.ToLower(net.JoinHostPort(name, fmt.Sprint(port)))] = true
	}
	for _, lb := range s.ELB {
		for _, l := range lb.Listeners {
			if slices.ContainsFunc(lb.Instances, runs) {
				add(lb.DNSName, l.Port)
			}
		}
	}
	for _, l := range s.ELBV2.Listeners {
		lb, group := s.ELBV2.LoadBalancers[l.LoadBalancer], s.ELBV2.TargetGroups[l.TargetGroup]
		if lb == nil || group == nil {
			continue
		}
		for _, target := range group.Targets {
			if runs(target.ID) {
				add(lb.DNSName, l.Port)
			}
		}
	}
	return out
}
