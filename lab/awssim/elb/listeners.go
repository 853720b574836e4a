package elb

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

var listenerParams = []string{
	"Listeners.member.N.Protocol",
	"Listeners.member.N.LoadBalancerPort",
	"Listeners.member.N.InstanceProtocol",
	"Listeners.member.N.InstancePort",
	"Listeners.member.N.SSLCertificateId",
}

func (b *Balancers) listenerActions() []wire.Action {
	return []wire.Action{
		{
			Name:     "CreateLoadBalancerListeners",
			Mutating: true,
			Params:   append([]string{"LoadBalancerName"}, listenerParams...),
			Errors: []string{
				"ValidationError",
				"LoadBalancerNotFound",
				"DuplicateListener",
				"UnsupportedProtocol",
				"CertificateNotFound",
				"InvalidConfigurationRequest",
			},
			Note: "An existing port with the same properties is no error.",
			Do:   b.createListeners,
		},
		{
			Name: "DeleteLoadBalancerListeners", Mutating: true,
			Params: []string{"LoadBalancerName", "LoadBalancerPorts.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound"},
			Note:   "Ports without a listener are ignored.",
			Do:     b.deleteListeners,
		},
	}
}

func (x Listener) equal(y Listener) bool {
	return x.Protocol == y.Protocol && x.Port == y.Port && x.InstanceProtocol == y.InstanceProtocol &&
		x.InstancePort == y.InstancePort &&
		x.Certificate == y.Certificate &&
		slices.Equal(x.Policies, y.Policies)
}

func (x Listener) node() wire.Node {
	return wire.El(
		"Listener",
		wire.Text("Protocol", x.Protocol),
		wire.Int("LoadBalancerPort", x.Port),
		wire.Text(
			"InstanceProtocol",
			x.InstanceProtocol,
		),
		wire.Int("InstancePort", x.InstancePort),
		wire.Opt("SSLCertificateId", x.Certificate),
	)
}

func (b *Balancers) createListeners(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	all, err := b.listeners(c, l.Listeners)
	if err != nil {
		return nil, err
	}
	l.Listeners = all
	return nil, nil
}

func (b *Balancers) deleteListeners(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	ports := c.List("LoadBalancerPorts.member")
	if len(ports) == 0 {
		return nil, wire.Fail("ValidationError", "LoadBalancerPorts must not be empty")
	}
	l.Listeners = slices.DeleteFunc(
		l.Listeners,
		func(x Listener) bool { return slices.Contains(ports, strconv.Itoa(x.Port)) },
	)
	return nil, nil
}

// listeners are those of a load balancer after the call's have been added, sorted by port: "If a listener with the
// specified port does not already exist, it is created; otherwise, the properties of the new listener must match the
// properties of the existing listener."
func (b *Balancers) listeners(c *wire.Call, have []Listener) ([]Listener, error) {
	all := slices.Clone(have)
	for _, p := range c.Structs("Listeners.member") {
		x, err := b.listener(p)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(y Listener) bool { return y.Port == x.Port })
		if at < 0 {
			all = append(all, x)
			continue
		}
		existing := all[at]
		existing.Policies = nil
		if !existing.equal(x) {
			return nil, wire.Fail(
				"DuplicateListener",
				"A listener already exists for port %d, but with different settings",
				x.Port,
			)
		}
	}
	slices.SortFunc(all, func(x, y Listener) int { return cmp.Compare(x.Port, y.Port) })
	return all, nil
}

// layers tells which protocols can be mixed: "If the front-end protocol is TCP or SSL, the back-end protocol must be
// TCP or SSL. If the front-end protocol is HTTP or HTTPS, the back-end protocol must be HTTP or HTTPS."
var layers = map[string]int{"TCP": 4, "SSL": 4, "HTTP": 7, "HTTPS": 7}

func (b *Balancers) listener(p wire.Params) (Listener, error) {
	x := Listener{
		Protocol:         strings.ToUpper(p["Protocol"]),
		InstanceProtocol: strings.ToUpper(p["InstanceProtocol"]),
		Certificate:      p["SSLCertificateId"],
	}
	if x.InstanceProtocol == "" {
		x.InstanceProtocol = x.Protocol
	}
	var err error
	if x.Port, _, err = p.Number("LoadBalancerPort", 1, 65535, "ValidationError"); err != nil {
		return x, err
	}
	if x.InstancePort, _, err = p.Number("InstancePort", 1, 65535, "ValidationError"); err != nil {
		return x, err
	}
	if x.Port == 0 || x.InstancePort == 0 {
		return x, wire.Fail("ValidationError", "A listener needs LoadBalancerPort and InstancePort")
	}
	if layers[x.Protocol] == 0 || layers[x.InstanceProtocol] == 0 {
		return x, wire.Fail(
			"UnsupportedProtocol",
			"The protocol '%s' or '%s' is not supported",
			x.Protocol,
			x.InstanceProtocol,
		)
	}
	if layers[x.Protocol] != layers[x.InstanceProtocol] {
		return x, conflict(
			"The front-end protocol %s and the back-end protocol %s do not go together",
			x.Protocol,
			x.InstanceProtocol,
		)
	}
	if secure := x.Protocol == "SSL" || x.Protocol == "HTTPS"; secure && !slices.Contains(b.certificates, x.Certificate) {
		return x, wire.Fail("CertificateNotFound", "Server Certificate not found for the key: %s", x.Certificate)
	}
	return x, nil
}
