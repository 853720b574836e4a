package elb

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// maxTags is "Each load balancer can have a maximum of 10 tags."
const maxTags = 10

// LoadBalancer is one classic load balancer. Lists are sorted, so that equal load balancers look the same.
type LoadBalancer struct {
	Name           string              `json:"name"`
	DNSName        string              `json:"dnsName"`
	Created        time.Time           `json:"created"`
	Scheme         string              `json:"scheme"`
	Listeners      []Listener          `json:"listeners"`
	Subnets        []string            `json:"subnets"`
	SecurityGroups []string            `json:"securityGroups"`
	Instances      []string            `json:"instances"`
	HealthCheck    HealthCheck         `json:"healthCheck"`
	Attributes     Attributes          `json:"attributes"`
	Policies       map[string]Policy   `json:"policies,omitempty"`
	Backends       map[string][]string `json:"backends,omitempty"`
	Tags           map[string]string   `json:"tags,omitempty"`
}

// Listener forwards a port.
type Listener struct {
	Protocol         string   `json:"protocol"`
	Port             int      `json:"port"`
	InstanceProtocol string   `json:"instanceProtocol"`
	InstancePort     int      `json:"instancePort"`
	Certificate      string   `json:"certificate,omitempty"`
	Policies         []string `json:"policies,omitempty"`
}

// HealthCheck is how members are probed. Nothing is probed here: every running member counts as healthy.
type HealthCheck struct {
	Target             string `json:"target"`
	Interval           int    `json:"interval"`
	Timeout            int    `json:"timeout"`
	UnhealthyThreshold int    `json:"unhealthyThreshold"`
	HealthyThreshold   int    `json:"healthyThreshold"`
}

// Policy is a named setting for listeners or back ends.
type Policy struct {
	Type       string            `json:"type"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Attributes are the load balancer's own settings.
type Attributes struct {
	AccessLog       bool   `json:"accessLog,omitempty"`
	AccessLogEvery  int    `json:"accessLogEveryMinutes,omitempty"`
	AccessLogBucket string `json:"accessLogBucket,omitempty"`
	AccessLogPrefix string `json:"accessLogPrefix,omitempty"`
	Draining        bool   `json:"draining,omitempty"`
	DrainingSeconds int    `json:"drainingSeconds"`
	IdleSeconds     int    `json:"idleSeconds"`
	CrossZone       bool   `json:"crossZone,omitempty"`
}

// Balancers are all of them, by name.
type Balancers struct {
	ByName map[string]*LoadBalancer

	region       *ec2.Region
	now          func() time.Time
	certificates []string
	made         int
}

// New is a service without load balancers in a region. Certificates are the ARNs that listeners may use.
func New(region *ec2.Region, now func() time.Time, certificates []string) *Balancers {
	b := &Balancers{ByName: map[string]*LoadBalancer{}, region: region, now: now, certificates: certificates}
	region.UsesGroups(func(group string) bool {
		for _, l := range b.ByName {
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
		b.lifecycleActions(), b.memberActions(), b.listenerActions(), b.placementActions(), b.attributeActions(),
		b.policyActions(), b.tagActions(),
	} {
		all = append(all, part...)
	}
	return all
}

// named finds the load balancer that a call is about.
func (b *Balancers) named(c *wire.Call) (*LoadBalancer, error) {
	name, err := required(c, "LoadBalancerName")
	if err != nil {
		return nil, err
	}
	l := b.ByName[name]
	if l == nil {
		return nil, notFound(name)
	}
	return l, nil
}

// notFound: absence has to be this code and status 400; the managers take any other error for "try again".
func notFound(name string) error {
	return wire.Fail("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", name)
}

// conflict is InvalidConfigurationRequest, which this API answers with 409 (and version 2015-12-01 with 400).
func conflict(format string, args ...any) error {
	e := wire.Fail("InvalidConfigurationRequest", format, args...)
	e.Status = http.StatusConflict
	return e
}

func required(c *wire.Call, name string) (string, error) {
	if v := c.Params[name]; v != "" {
		return v, nil
	}
	return "", wire.Fail(
		"ValidationError",
		"Value null at '%s' failed to satisfy constraint: Member must not be null",
		name,
	)
}

func (b *Balancers) dnsName(name, scheme string) string {
	b.made++
	prefix := ""
	if scheme == "internal" {
		prefix = "internal-"
	}
	return fmt.Sprintf("%s%s-%d.%s.elb.amazonaws.com", prefix, name, 1000000000+b.made, b.region.Name)
}

// sorted is a list as a set: sorted, without repetition, never nil.
func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return slices.Compact(out)
}
