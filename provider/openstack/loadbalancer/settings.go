package loadbalancer

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// The annotations of Services, as cloud-provider-openstack names them.
const (
	prefix             = "loadbalancer.openstack.org/"
	annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	// AnnotationOnError is our own: it says what is done with a load balancer that is in ERROR, or has parts that are.
	AnnotationOnError = "transplant.dev/openstack-on-error"
	// AnnotationSecondSubnet is our own: the subnet of the second address of a dual-stack Service.
	AnnotationSecondSubnet = "transplant.dev/openstack-second-subnet-id"

	onErrorFailover = "failover"
	onErrorRecreate = "recreate"
)

// What a listener has without an annotation, as cloud-provider-openstack sets it, in milliseconds. They are for the
// data of clients, connections to members, the data of members, and the inspection of TCP.
var defaultTimeouts = [4]int{50000, 5000, 50000, 0}

var timeoutAnnotations = [4]string{
	"timeout-client-data", "timeout-member-connect", "timeout-member-data", "timeout-tcp-inspect",
}

var timeoutFields = [4]string{
	"timeout_client_data", "timeout_member_connect", "timeout_member_data", "timeout_tcp_inspect",
}

// sourced is a setting and where it is from, for errors that say what to change.
type sourced struct{ value, from string }

func (s sourced) or(other sourced) sourced {
	if s.value == "" {
		return other
	}
	return s
}

// floatingSubnet chooses the subnet of new floating IPs: by ID, or by a pattern of names and by tags.
type floatingSubnet struct{ id, name, tags string }

// identity is what a load balancer is found by, and what its deletion depends on.
type identity struct {
	service *corev1.Service
	// clusters are the names that the cluster has and had, the one of now first.
	clusters []string
	// name is the external provider's for the load balancer, legacy the in-tree provider's. id is the one that an
	// annotation names; empty for none.
	name, legacy, id string

	internal, keepFloating bool
	hostname               string
}

// settings are what a Service asks of its load balancer.
type settings struct {
	identity

	family corev1.IPFamily
	// second is the family of the other address of a dual-stack Service; empty for none. With required, no load balancer
	// is made without it.
	second       corev1.IPFamily
	required     bool
	secondSubnet string // empty for the one that is found

	subnet, network, memberSubnet sourced
	port, flavor, zone            string
	floatingNetwork               sourced
	floatingSubnet                floatingSubnet

	proxy        string // the protocol of pools: PROXY, PROXYV2; empty for the listener's
	forwardedFor bool
	tls          string
	method       string
	persistence  string
	connections  int
	timeouts     [4]*int // nil where no annotation is
	allowed      []string
	monitor      *monitor // without a name; nil for none
	healthPort   int
	selector     map[string]string

	onError string
}

// longest is how long a name of Octavia, or a description of Neutron, can be.
const longest = 255

// cut shortens names to what Octavia takes.
func cut(name string) string { return name[:min(len(name), longest)] }

func fullName(cluster string, service *corev1.Service) string {
	return "kube_service_" + cluster + "_" + service.Namespace + "_" + service.Name
}

// nameOf is the name of the load balancer that a Service gets.
func nameOf(cluster string, service *corev1.Service) string { return cut(fullName(cluster, service)) }

// names are those by which a load balancer is the Service's own. A name that was cut could be another Service's too.
func (i identity) names() (names []string) {
	for _, cluster := range i.clusters {
		if name := fullName(cluster, i.service); len(name) <= longest {
			names = append(names, name)
		}
	}
	return append(names, i.legacy)
}

// reader reads the annotations of one Service, and keeps what is wrong with them.
type reader struct {
	annotations map[string]string
	problems    []error
}

func (r *reader) complain(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// text is an annotation's value, or the config's. An annotation without a value unsets the config's.
func (r *reader) text(name, config string) string {
	if value, ok := r.annotations[prefix+name]; ok {
		return strings.TrimSpace(value)
	}
	return config
}

func (r *reader) sourced(name, class, config string) sourced {
	return sourced{r.text(name, ""), "annotation " + prefix + name}.
		or(sourced{class, "[LoadBalancerClass] " + name + " in the cloud config"}).
		or(sourced{config, "[LoadBalancer] " + name + " in the cloud config"})
}

func (r *reader) boolSetting(name string, config bool) bool {
	value, ok := r.annotations[name]
	switch {
	case !ok || value == "":
		return config
	case value == "true", value == "false":
		return value == "true"
	}
	r.complain("annotation %s is %q: it has to be true or false", name, value)
	return config
}

func (r *reader) number(name string, config, least int) int {
	value := r.text(name, "")
	if value == "" {
		return config
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < least {
		r.complain("annotation %s is %q: it has to be a whole number of at least %d", prefix+name, value, least)
		return config
	}
	return number
}

// newSettings reads a Service. It names all that is wrong with it at once.
func newSettings(conf *cloudconf.Config, cluster string, service *corev1.Service) (*settings, error) {
	r := &reader{annotations: service.Annotations}
	s := &settings{
		identity:     readIdentity(r, conf, cluster, service),
		port:         r.text("port-id", ""),
		flavor:       r.text("flavor-id", conf.LoadBalancer.FlavorID),
		zone:         r.text("availability-zone", conf.LoadBalancer.AvailabilityZone),
		forwardedFor: r.boolSetting(prefix+"x-forwarded-for", false),
		tls:          r.text("default-tls-container-ref", conf.LoadBalancer.DefaultTLSContainer),
		method:       r.text("lb-method", conf.LoadBalancer.LBMethod),
		connections:  r.number("connection-limit", -1, -1),
		onError:      service.Annotations[AnnotationOnError],
	}
	s.readFamilies()
	if service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		s.persistence = "SOURCE_IP"
	}
	s.readPlaces(r, conf)
	s.readProxy(r)
	s.readMonitor(r, conf.LoadBalancer)
	s.readRanges(r)
	for i, name := range timeoutAnnotations {
		if r.text(name, "") != "" {
			value := r.number(name, defaultTimeouts[i], 0)
			s.timeouts[i] = &value
		}
	}
	s.selector = selectorOf(r.text("node-selector", conf.LoadBalancer.NodeSelector))
	s.checkPorts(r)
	if s.onError != "" && s.onError != onErrorFailover && s.onError != onErrorRecreate {
		r.complain("annotation %s is %q: it can be %s or %s", AnnotationOnError, s.onError, onErrorFailover, onErrorRecreate)
	}
	if len(r.problems) > 0 {
		return nil, fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, errors.Join(r.problems...))
	}
	return s, nil
}

// isID holds IDs of Octavia. What else an annotation has would become a part of the URL.
var isID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`).MatchString

func readIdentity(r *reader, conf *cloudconf.Config, cluster string, service *corev1.Service) identity {
	i := identity{
		service:      service,
		clusters:     append([]string{cluster}, conf.LoadBalancer.FormerClusterNames...),
		name:         nameOf(cluster, service),
		legacy:       cloudprovider.DefaultLoadBalancerName(service),
		id:           r.text("load-balancer-id", ""),
		internal:     conf.LoadBalancer.InternalLB || r.boolSetting(annotationInternal, false),
		keepFloating: r.boolSetting(prefix+"keep-floatingip", false),
		hostname:     r.text("hostname", ""),
	}
	if i.id != "" && !isID(i.id) {
		r.complain("annotation %sload-balancer-id is %q: it has to be the ID of a load balancer", prefix, i.id)
		i.id = ""
	}
	if full := fullName(cluster, service); len(full) > longest {
		r.complain("its load balancer would be named %s, and Octavia's names have %d characters at most: "+
			"use a shorter name for the Service, or a shorter --cluster-name", full, longest)
	}
	return i
}

// readPlaces reads the networks and subnets. A class goes before the annotation where floating IPs are concerned, and
// after it elsewhere, as in the external provider.
func (s *settings) readPlaces(r *reader, conf *cloudconf.Config) {
	class := &cloudconf.Class{}
	if name := r.text("class", ""); name != "" {
		if class = conf.LoadBalancerClass[name]; class == nil {
			r.complain("annotation %sclass is %q: the cloud config has no [LoadBalancerClass %q]", prefix, name, name)
			return
		}
	}
	all := conf.LoadBalancer
	s.subnet = r.sourced("subnet-id", class.SubnetID, all.SubnetID)
	s.network = r.sourced("network-id", class.NetworkID, all.NetworkID)
	s.memberSubnet = r.sourced("member-subnet-id", class.MemberSubnetID, all.MemberSubnetID).
		or(sourced{all.SubnetID, "[LoadBalancer] subnet-id in the cloud config"})
	s.floatingNetwork = sourced{class.FloatingNetworkID, "[LoadBalancerClass] floating-network-id in the cloud config"}.
		or(r.sourced("floating-network-id", "", all.FloatingNetworkID))
	for _, choice := range []floatingSubnet{
		{class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags},
		{r.text("floating-subnet-id", ""), r.text("floating-subnet", ""), r.text("floating-subnet-tags", "")},
		{all.FloatingSubnetID, all.FloatingSubnet, all.FloatingSubnetTags},
	} {
		if choice != (floatingSubnet{}) {
			s.floatingSubnet = choice
			break
		}
	}
}

func (s *settings) readProxy(r *reader) {
	switch value := r.text("proxy-protocol", "false"); value {
	case "true", "v1":
		s.proxy = "PROXY"
	case "v2":
		s.proxy = "PROXYV2"
	case "false", "":
	default:
		r.complain("annotation %sproxy-protocol is %q: it can be true, false, v1 or v2", prefix, value)
	}
	if s.proxy != "" && s.forwardedFor {
		r.complain("annotations %sproxy-protocol and %sx-forwarded-for cannot be used together", prefix, prefix)
	}
}

// readFamilies reads which addresses a Service has: one of each of its families.
func (s *settings) readFamilies() {
	spec := s.service.Spec
	if len(spec.IPFamilies) > 0 {
		s.family = spec.IPFamilies[0]
	}
	if len(spec.IPFamilies) > 1 {
		s.second = spec.IPFamilies[1]
		s.required = spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack
		s.secondSubnet = strings.TrimSpace(s.service.Annotations[AnnotationSecondSubnet])
	}
}

func (s *settings) readMonitor(r *reader, conf cloudconf.LoadBalancer) {
	if !r.boolSetting(prefix+"enable-health-monitor", conf.CreateMonitor) {
		return
	}
	s.monitor = &monitor{
		delay:       r.number("health-monitor-delay", int(conf.MonitorDelay.Seconds()), 1),
		timeout:     r.number("health-monitor-timeout", int(conf.MonitorTimeout.Seconds()), 1),
		retries:     r.number("health-monitor-max-retries", conf.MonitorMaxRetries, 1),
		retriesDown: r.number("health-monitor-max-retries-down", conf.MonitorMaxRetriesDown, 1),
	}
	if s.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.healthPort = int(s.service.Spec.HealthCheckNodePort)
	}
}

// readRanges reads who may connect. The field goes before the annotation.
func (s *settings) readRanges(r *reader) {
	ranges, from := s.service.Spec.LoadBalancerSourceRanges, "spec.loadBalancerSourceRanges"
	if len(ranges) == 0 {
		from = "annotation " + corev1.AnnotationLoadBalancerSourceRangesKey
		for part := range strings.SplitSeq(r.annotations[corev1.AnnotationLoadBalancerSourceRangesKey], ",") {
			if strings.TrimSpace(part) != "" {
				ranges = append(ranges, part)
			}
		}
	}
	for _, text := range ranges {
		cidr, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			r.complain("%s has %q: it has to be a CIDR such as 10.0.0.0/24", from, text)
			continue
		}
		s.allowed = append(s.allowed, cidr.Masked().String())
	}
	s.allowed = normalRanges(s.allowed)
}

// normalRanges sorts ranges, and is nil for those that let everyone pass: Octavia has none for that.
func normalRanges(ranges []string) []string {
	if slices.Contains(ranges, "0.0.0.0/0") || slices.Contains(ranges, "::/0") {
		if len(ranges) == 1 || slices.Contains(ranges, "0.0.0.0/0") && slices.Contains(ranges, "::/0") {
			return nil
		}
	}
	ranges = slices.Clone(ranges)
	slices.Sort(ranges)
	return slices.Compact(ranges)
}

func (s *settings) checkPorts(r *reader) {
	if len(s.service.Spec.Ports) == 0 {
		r.complain("it has no ports")
	}
	for _, p := range s.service.Spec.Ports {
		if p.NodePort == 0 {
			r.complain("port %d has no node port, which is what Octavia sends to: set spec.allocateLoadBalancerNodePorts to true",
				p.Port)
		}
		if p.Protocol != corev1.ProtocolTCP && (s.proxy != "" || s.forwardedFor || s.tls != "") {
			r.complain("port %d is %s: proxy-protocol, x-forwarded-for and default-tls-container-ref are for TCP alone",
				p.Port, p.Protocol)
		}
	}
}

// selectorOf reads "a=b,c": labels that a node must have, with a value or with any.
func selectorOf(text string) map[string]string {
	selector := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); key != "" {
			selector[key] = strings.TrimSpace(value)
		}
	}
	return selector
}

// target is a node as load balancers see it. Its subnet is that of members; empty for the one of all members.
type target struct{ name, address, subnet string }

// targets are the nodes that are members. Without any there is an error: a load balancer keeps the members that it has.
// A kubelet may write another Node's address into the status of its own. Octavia refuses two members of one address, so
// the older Node keeps it, and all other members are changed as always.
func (s *settings) targets(nodes []*corev1.Node) ([]target, error) {
	all, without, unselected := targetsOf(s, s.family, nodes)
	if len(all) == 0 {
		return nil, fmt.Errorf("no node can be a member of the load balancer of Service %s/%s; it keeps those that it has "+
			"(%d nodes are available, %d of them without an address of its family, %d not selected by %snode-selector)",
			s.service.Namespace, s.service.Name, len(nodes), without, unselected, prefix)
	}
	return all, nil
}

// targetsOf are the nodes that are members by an address of a family. It counts those without one, and those that the
// Service does not select.
func targetsOf(
	s *settings,
	family corev1.IPFamily,
	nodes []*corev1.Node,
) (all []target, without, unselected int) {
	taken := map[string]bool{}
	for _, node := range slices.SortedFunc(slices.Values(nodes), byAge) {
		if !s.selects(node) {
			unselected++
			continue
		}
		address := addressOf(node, family)
		if address == "" {
			without++
			continue
		}
		if taken[address] {
			continue
		}
		taken[address] = true
		all = append(all, target{name: node.Name, address: address})
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return all, without, unselected
}

func byAge(a, b *corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

func (s *settings) selects(node *corev1.Node) bool {
	for key, want := range s.selector {
		value, ok := node.Labels[key]
		if !ok || want != "" && value != want {
			return false
		}
	}
	return true
}

// addressOf is a node's first internal address of a family, or else its first external one.
func addressOf(node *corev1.Node, family corev1.IPFamily) string {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			parsed, err := netip.ParseAddr(a.Address)
			if err != nil || a.Type != kind {
				continue
			}
			if family == "" || parsed.Is4() == (family == corev1.IPv4Protocol) {
				return a.Address
			}
		}
	}
	return ""
}
