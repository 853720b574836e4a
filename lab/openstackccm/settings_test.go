package openstackccm

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// Each setting is in the load balancer or in the Service's status, and the second look finds nothing to change.
func TestEachSettingOfANewLoadBalancer(t *testing.T) {
	const other = "33333333-0000-4000-8000-000000000001"
	with := func(pairs ...string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			for i := 0; i < len(pairs); i += 2 {
				s.Annotations[annote+pairs[i]] = pairs[i+1]
			}
		}
	}
	inOther := func(lb openstacksim.LoadBalancer, _ corev1.LoadBalancerIngress) bool { return lb.VIPSubnet == other }
	membersInOther := func(lb openstacksim.LoadBalancer, _ corev1.LoadBalancerIngress) bool {
		return lb.VIPSubnet == "subnet-nodes" && !slices.ContainsFunc(lb.Pools, func(p openstacksim.Pool) bool {
			return len(p.Members) != 2 || slices.ContainsFunc(p.Members, func(m openstacksim.Member) bool { return m.Subnet != other })
		})
	}
	eachListener := func(timeouts [4]int) func(openstacksim.LoadBalancer, corev1.LoadBalancerIngress) bool {
		return func(lb openstacksim.LoadBalancer, _ corev1.LoadBalancerIngress) bool {
			return len(lb.Listeners) == 2 && !slices.ContainsFunc(lb.Listeners, func(l openstacksim.Listener) bool { return l.Timeouts != timeouts })
		}
	}
	eachMonitor := func(want openstacksim.Monitor) func(openstacksim.LoadBalancer, corev1.LoadBalancerIngress) bool {
		return func(lb openstacksim.LoadBalancer, _ corev1.LoadBalancerIngress) bool {
			return len(lb.Pools) == 2 && !slices.ContainsFunc(lb.Pools, func(p openstacksim.Pool) bool {
				if p.Monitor == nil {
					return true
				}
				got := *p.Monitor
				got.ID, got.Name = "", ""
				return got != want
			})
		}
	}
	named := func(want string) func(openstacksim.LoadBalancer, corev1.LoadBalancerIngress) bool {
		return func(_ openstacksim.LoadBalancer, in corev1.LoadBalancerIngress) bool {
			return in.Hostname == want && in.IP == "" && in.IPMode == nil
		}
	}
	protocol := func(want string, mode corev1.LoadBalancerIPMode) func(openstacksim.LoadBalancer, corev1.LoadBalancerIngress) bool {
		return func(lb openstacksim.LoadBalancer, in corev1.LoadBalancerIngress) bool {
			return in.IP != "" && *in.IPMode == mode && !slices.ContainsFunc(lb.Pools, func(p openstacksim.Pool) bool { return p.Protocol != want })
		}
	}
	for name, test := range map[string]struct {
		config []string
		change func(*corev1.Service)
		holds  func(openstacksim.LoadBalancer, corev1.LoadBalancerIngress) bool
	}{
		"network-id in the config":       {[]string{"network-id=other"}, with(), inOther},
		"network-id of the Service":      {[]string{"network-id=nodes"}, with("network-id", "other"), inOther},
		"network-id of a class":          {[]string{`[LoadBalancerClass "dmz"]`, "network-id=other"}, with("class", "dmz"), inOther},
		"member-subnet-id in the config": {[]string{"member-subnet-id=" + other}, with(), membersInOther},
		"member-subnet-id of the Service": {
			[]string{"member-subnet-id=subnet-nodes"}, with("member-subnet-id", other), membersInOther,
		},
		"member-subnet-id of a class": {
			[]string{`[LoadBalancerClass "dmz"]`, "member-subnet-id=" + other}, with("class", "dmz"), membersInOther,
		},
		"no timeouts":            {nil, with(), eachListener([4]int{50000, 5000, 50000, 0})},
		"timeout-client-data":    {nil, with("timeout-client-data", "1000"), eachListener([4]int{1000, 5000, 50000, 0})},
		"timeout-member-connect": {nil, with("timeout-member-connect", "2000"), eachListener([4]int{50000, 2000, 50000, 0})},
		"timeout-member-data":    {nil, with("timeout-member-data", "3000"), eachListener([4]int{50000, 5000, 3000, 0})},
		"timeout-tcp-inspect":    {nil, with("timeout-tcp-inspect", "4000"), eachListener([4]int{50000, 5000, 50000, 4000})},
		"checks by the config": {
			[]string{"create-monitor=true", "monitor-max-retries=4", "monitor-max-retries-down=5", "monitor-timeout=2s"}, with(),
			eachMonitor(openstacksim.Monitor{Type: "TCP", Delay: 5, Timeout: 2, Retries: 4, Retries2: 5}),
		},
		"checks by the Service": {
			[]string{"create-monitor=true", "monitor-max-retries=4"},
			with("health-monitor-max-retries", "6", "health-monitor-max-retries-down", "7", "health-monitor-timeout", "1"),
			eachMonitor(openstacksim.Monitor{Type: "TCP", Delay: 5, Timeout: 1, Retries: 6, Retries2: 7}),
		},
		"hostname": {nil, with("hostname", "web.example"), named("web.example")},
		"hostname with the PROXY protocol": {
			[]string{"enable-ingress-hostname=true"}, with("hostname", "web.example", "proxy-protocol", "true"), named("web.example"),
		},
		"a host name of nip.io": {
			[]string{"enable-ingress-hostname=true"}, with("proxy-protocol", "v1"), named("203.0.113.1.nip.io"),
		},
		"a host name of another suffix": {
			[]string{"enable-ingress-hostname=true", "ingress-hostname-suffix=lb.example"}, with("proxy-protocol", "v2"), named("203.0.113.1.lb.example"),
		},
		"no host name without the PROXY protocol": {
			[]string{"enable-ingress-hostname=true"}, with(), protocol("TCP", corev1.LoadBalancerIPModeVIP),
		},
		"the PROXY protocol, version 1": {nil, with("proxy-protocol", "v1"), protocol("PROXY", corev1.LoadBalancerIPModeProxy)},
		"the PROXY protocol, version 2": {nil, with("proxy-protocol", "v2"), protocol("PROXYV2", corev1.LoadBalancerIPModeProxy)},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 2, test.config...)
			b.AddSubnet(openstacksim.Subnet{ID: other, Name: "other", Network: "other"})
			s := service("web", test.change)
			b.ensure(t, s)
			if lb, in := b.only(t), s.Status.LoadBalancer.Ingress[0]; !test.holds(lb, in) {
				t.Errorf("load balancer %+v, ingress %+v", lb, in)
			}
			b.noneUnknown(t, b.Calls())
			b.ensure(t, s)
			if got := writes(b.Calls()); len(got) > 0 {
				t.Errorf("the second look writes %v", got)
			}
			b.remove(t, s)
			b.nothingLeft(t)
		})
	}
}
