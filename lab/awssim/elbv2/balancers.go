package elbv2

import (
	"fmt"
	"slices"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// maxTags is the quota of tags per resource.
const maxTags = 50

// LoadBalancer is one network load balancer.
type LoadBalancer struct {
	ARN            string            `json:"arn"`
	Name           string            `json:"name"`
	DNSName        string            `json:"dnsName"`
	Created        time.Time         `json:"created"`
	Scheme         string            `json:"scheme"`
	Subnets        []SubnetMapping   `json:"subnets"`
	SecurityGroups []string          `json:"securityGroups"`
	Attributes     map[string]string `json:"attributes"`
	Tags           map[string]string `json:"tags,omitempty"`
}

// SubnetMapping is one subnet of a load balancer.
type SubnetMapping struct {
	Subnet     string `json:"subnet"`
	Allocation string `json:"allocation,omitempty"`
	PrivateIP  string `json:"privateIP,omitempty"`
}

// Listener forwards a port to a target group.
type Listener struct {
	ARN          string            `json:"arn"`
	LoadBalancer string            `json:"loadBalancer"`
	Protocol     string            `json:"protocol"`
	Port         int               `json:"port"`
	TargetGroup  string            `json:"targetGroup"`
	Certificate  string            `json:"certificate,omitempty"`
	SSLPolicy    string            `json:"sslPolicy,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// TargetGroup holds the members that listeners forward to, sorted.
type TargetGroup struct {
	ARN         string            `json:"arn"`
	Name        string            `json:"name"`
	Protocol    string            `json:"protocol"`
	Port        int               `json:"port"`
	HealthCheck HealthCheck       `json:"healthCheck"`
	Targets     []Target          `json:"targets"`
	Attributes  map[string]string `json:"attributes"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// HealthCheck is how targets are probed. Nothing is probed here.
type HealthCheck struct {
	Protocol           string `json:"protocol"`
	Port               string `json:"port"`
	Path               string `json:"path,omitempty"`
	Interval           int    `json:"interval"`
	Timeout            int    `json:"timeout"`
	HealthyThreshold   int    `json:"healthyThreshold"`
	UnhealthyThreshold int    `json:"unhealthyThreshold"`
}

// Target is an instance and a port.
type Target struct {
	ID   string `json:"id"`
	Port int    `json:"port"`
}

// State is everything there is, by ARN.
type State struct {
	LoadBalancers map[string]*LoadBalancer `json:"loadBalancers"`
	Listeners     map[string]*Listener     `json:"listeners"`
	TargetGroups  map[string]*TargetGroup  `json:"targetGroups"`
}

// Balancers act on a State.
type Balancers struct {
	State

	region       *ec2.Region
	now          func() time.Time
	certificates []string
	addresses    []string
	made         int
}

// New is a service without load balancers in a region. Certificates are the ARNs that listeners may use, addresses the
// allocation ids of elastic IP addresses that load balancers may use.
func New(region *ec2.Region, now func() time.Time, certificates, addresses []string) *Balancers {
	b := &Balancers{
		State: State{
			LoadBalancers: map[string]*LoadBalancer{},
			Listeners:     map[string]*Listener{},
			TargetGroups:  map[string]*TargetGroup{},
		},
		region:       region,
		now:          now,
		certificates: certificates,
		addresses:    addresses,
	}
	region.UsesGroups(func(group string) bool {
		for _, l := range b.LoadBalancers {
			if slices.Contains(l.SecurityGroups, group) {
				return true
			}
		}
		return false
	})
	return b
}

// Actions are the operations of the API in the order of the reference page.
func (b *Balancers) Actions() []wire.Action {
	var all []wire.Action
	for _, part := range [][]wire.Action{
		b.lifecycleActions(), b.settingActions(), b.listenerActions(), b.groupActions(), b.targetActions(),
		b.tagActions(),
	} {
		all = append(all, part...)
	}
	return all
}

// nextARN names a new resource; the last part of a name is a number that never comes again.
func (b *Balancers) nextARN(resource string) string {
	b.made++
	return fmt.Sprintf(
		"arn:aws:elasticloadbalancing:%s:%s:%s/%016x",
		b.region.Name,
		ec2.AccountID,
		resource,
		0xabc0000+b.made,
	)
}

func (b *Balancers) balancer(c *wire.Call) (*LoadBalancer, error) {
	arn, err := required(c, "LoadBalancerArn")
	if err != nil {
		return nil, err
	}
	if l := b.LoadBalancers[arn]; l != nil {
		return l, nil
	}
	return nil, noBalancer(arn)
}

func noBalancer(name string) error {
	return wire.Fail("LoadBalancerNotFound", "Load balancers '[%s]' not found", name)
}

func (b *Balancers) targetGroup(c *wire.Call) (*TargetGroup, error) {
	arn, err := required(c, "TargetGroupArn")
	if err != nil {
		return nil, err
	}
	if t := b.TargetGroups[arn]; t != nil {
		return t, nil
	}
	return nil, noTargetGroup(arn)
}

func noTargetGroup(name string) error {
	return wire.Fail("TargetGroupNotFound", "Target groups '%s' not found", name)
}

func required(c *wire.Call, name string) (string, error) {
	if v := c.Params[name]; v != "" {
		return v, nil
	}
	return "", wire.Fail("ValidationError", "'%s' must have a value", name)
}

// listenersOf are a load balancer's listeners, by ARN.
func (b *Balancers) listenersOf(balancer string) []*Listener {
	var out []*Listener
	for _, arn := range wire.Keys(b.Listeners) {
		if b.Listeners[arn].LoadBalancer == balancer {
			out = append(out, b.Listeners[arn])
		}
	}
	return out
}

// usersOf are the ARNs of the load balancers whose listeners forward to a target group.
func (b *Balancers) usersOf(group string) []string {
	used := map[string]bool{}
	for _, l := range b.Listeners {
		if l.TargetGroup == group {
			used[l.LoadBalancer] = true
		}
	}
	return wire.Keys(used)
}

// picked are the keys of the wanted objects: those with the wanted ARNs or names, or all when none are asked for.
func picked[V any](
	have map[string]V,
	arns, names []string,
	nameOf func(V) string,
	unknown func(string) error,
) ([]string, error) {
	if len(arns)+len(names) == 0 {
		return wire.Keys(have), nil
	}
	found := map[string]bool{}
	for _, arn := range arns {
		if _, ok := have[arn]; !ok {
			return nil, unknown(arn)
		}
		found[arn] = true
	}
	for _, name := range names {
		known := false
		for arn, v := range have {
			if nameOf(v) == name {
				found[arn], known = true, true
			}
		}
		if !known {
			return nil, unknown(name)
		}
	}
	return wire.Keys(found), nil
}
