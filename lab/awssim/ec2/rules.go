package ec2

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (r *Region) authorize(c *wire.Call) ([]wire.Node, error) {
	g, err := r.group(c)
	if err != nil {
		return nil, err
	}
	added, err := r.rules(c)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(g.Rules)
	for _, n := range added {
		if slices.ContainsFunc(rules, n.same) {
			return nil, wire.Fail("InvalidPermission.Duplicate", "the specified rule \"%s\" already exists", n)
		}
		rules = append(rules, n)
	}
	slices.SortFunc(rules, compareRules)
	g.Rules = rules
	return done(), nil
}

func (r *Region) revoke(c *wire.Call) ([]wire.Node, error) {
	g, err := r.group(c)
	if err != nil {
		return nil, err
	}
	removed, err := r.rules(c)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(g.Rules)
	for _, n := range removed {
		at := slices.IndexFunc(rules, n.same)
		if at < 0 {
			return nil, wire.Fail("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
		}
		rules = slices.Delete(rules, at, at+1)
	}
	g.Rules = rules
	return done(), nil
}

// rules reads IpPermissions, one rule per source.
func (r *Region) rules(c *wire.Call) ([]Rule, error) {
	var out []Rule
	for _, p := range c.Structs("IpPermissions") {
		protocol, err := ruleProtocol(p)
		if err != nil {
			return nil, err
		}
		base := Rule{Protocol: protocol, From: p["FromPort"], To: p["ToPort"]}
		sources, err := r.sources(p)
		if err != nil {
			return nil, err
		}
		for _, s := range sources {
			s.Protocol, s.From, s.To = base.Protocol, base.From, base.To
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, wire.Fail("MissingParameter", "The request must contain the parameter ipPermissions with a source")
	}
	return out, nil
}

// ruleProtocol checks a permission's protocol and ports: "For TCP and UDP, you must also specify the destination port
// or port range. For ICMP/ICMPv6, you must also specify the ICMP/ICMPv6 type and code."
func ruleProtocol(p wire.Params) (string, error) {
	protocol := strings.ToLower(p["IpProtocol"])
	if protocol == "-1" {
		return protocol, nil
	}
	if !slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, protocol) {
		return "", wire.Fail(
			"InvalidParameterValue",
			"Invalid value '%s' for IP protocol. Unknown protocol.",
			p["IpProtocol"],
		)
	}
	from, err1 := strconv.Atoi(p["FromPort"])
	to, err2 := strconv.Atoi(p["ToPort"])
	if err1 != nil || err2 != nil || from < -1 || to > 65535 || (from > to && !strings.HasPrefix(protocol, "icmp")) {
		return "", wire.Fail("InvalidParameterValue", "Invalid range of ports: '%s' to '%s'", p["FromPort"], p["ToPort"])
	}
	return protocol, nil
}

func (r *Region) sources(p wire.Params) ([]Rule, error) {
	var out []Rule
	for _, s := range p.Structs("IpRanges") {
		if prefix, err := netip.ParsePrefix(s["CidrIp"]); err != nil || !prefix.Addr().Is4() {
			return nil, wire.Fail("InvalidParameterValue", "CIDR block %s is malformed", s["CidrIp"])
		}
		out = append(out, Rule{CIDR: s["CidrIp"], Description: s["Description"]})
	}
	for _, s := range p.Structs("Ipv6Ranges") {
		if prefix, err := netip.ParsePrefix(s["CidrIpv6"]); err != nil || !prefix.Addr().Is6() {
			return nil, wire.Fail("InvalidParameterValue", "CIDR block %s is malformed", s["CidrIpv6"])
		}
		out = append(out, Rule{CIDRv6: s["CidrIpv6"], Description: s["Description"]})
	}
	for _, s := range p.Structs("Groups") {
		if r.SecurityGroups[s["GroupId"]] == nil {
			return nil, unknownGroup(s["GroupId"])
		}
		out = append(out, Rule{Group: s["GroupId"], Description: s["Description"]})
	}
	return out, nil
}

// same reports whether two rules are one to EC2: "If the security group rule has a description, you do not need to
// specify the description to revoke the rule."
func (x Rule) same(y Rule) bool {
	x.Description, y.Description = "", ""
	return x == y
}

// String is the form in which EC2's messages name a rule.
func (x Rule) String() string {
	return "peer: " + x.CIDR + x.CIDRv6 + x.Group + ", " + strings.ToUpper(
		x.Protocol,
	) + ", from port: " + x.From + ", to port: " + x.To + ", ALLOW"
}

func compareRules(x, y Rule) int {
	return cmp.Or(cmp.Compare(x.Protocol, y.Protocol), comparePorts(x.From, y.From), comparePorts(x.To, y.To),
		cmp.Compare(x.CIDR, y.CIDR), cmp.Compare(x.CIDRv6, y.CIDRv6), cmp.Compare(x.Group, y.Group))
}

func comparePorts(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) }

// permissions writes sorted rules the way EC2 shows them: rules with the same protocol and ports are one permission
// with several sources. The providers depend on that when they revoke one source of several.
func permissions(name string, rules []Rule) wire.Node {
	set := wire.El(name)
	for start := 0; start < len(rules); {
		end := start + 1
		for end < len(rules) && rules[end].Protocol == rules[start].Protocol && rules[end].From == rules[start].From &&
			rules[end].To == rules[start].To {
			end++
		}
		set.Children = append(set.Children, permission(rules[start:end]))
		start = end
	}
	return set
}

func permission(rules []Rule) wire.Node {
	groups, v4, v6 := wire.El("groups"), wire.El("ipRanges"), wire.El("ipv6Ranges")
	for _, x := range rules {
		note := wire.Opt("description", x.Description)
		switch {
		case x.Group != "":
			groups.Children = append(
				groups.Children,
				wire.El("item", wire.Text("userId", AccountID), wire.Text("groupId", x.Group), note),
			)
		case x.CIDRv6 != "":
			v6.Children = append(v6.Children, wire.El("item", wire.Text("cidrIpv6", x.CIDRv6), note))
		default:
			v4.Children = append(v4.Children, wire.El("item", wire.Text("cidrIp", x.CIDR), note))
		}
	}
	return wire.El(
		"item",
		wire.Text("ipProtocol", rules[0].Protocol),
		wire.Opt("fromPort", rules[0].From),
		wire.Opt("toPort", rules[0].To),
		groups,
		v4,
		v6,
		wire.El("prefixListIds"),
	)
}
