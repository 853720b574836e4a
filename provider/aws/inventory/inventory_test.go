package inventory

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// cloud answers the query protocol of the three APIs with canned XML, and remembers what was asked.
type cloud struct {
	mu sync.Mutex
	// answers by "action" or "version/action"; a function may look at the parameters.
	answers map[string]func(url.Values) (int, string)
	asked   []string
}

// Versions of the three APIs, by which calls are told apart.
const (
	ec2API   = "2016-11-15"
	elbAPI   = "2012-06-01"
	elbv2API = "2015-12-01"
)

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Form.Get("Version") + "/" + r.Form.Get("Action")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, key)
	answer, ok := c.answers[key]
	if !ok {
		http.Error(w, "no answer for "+key, http.StatusNotImplemented)
		return
	}
	status, body := answer(r.Form)
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func always(body string) func(url.Values) (int, string) {
	return func(url.Values) (int, string) { return http.StatusOK, body }
}

// refuse answers as EC2 does.
func refuse(code, message string) func(url.Values) (int, string) {
	return func(url.Values) (int, string) {
		return http.StatusBadRequest, "<Response><Errors><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error></Errors><RequestID>3a1f</RequestID></Response>"
	}
}

// refuseELB answers as both load balancer APIs do.
func refuseELB(code, message string) func(url.Values) (int, string) {
	return func(url.Values) (int, string) {
		return http.StatusForbidden, "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>" + message + "</Message></Error><RequestId>3a1f</RequestId></ErrorResponse>"
	}
}

func instance(id, name, state, tags string) string {
	return "<item><reservationId>r-1</reservationId><instancesSet><item><instanceId>" + id + "</instanceId><instanceState><code>16</code><name>" + state +
		"</name></instanceState><privateDnsName>" + name + "</privateDnsName><tagSet>" + tags + "</tagSet></item></instancesSet></item>"
}

// labTag is what an instance with the tag ours is told to have.
var labTag = []string{"lab=owned"}

const ours = "<item><key>kubernetes.io/cluster/lab</key><value>owned</value></item>"

func instances(items ...string) string {
	return "<DescribeInstancesResponse><reservationSet>" + strings.Join(items, "") + "</reservationSet></DescribeInstancesResponse>"
}

// lab is a cluster of two nodes with a classic and a network load balancer, next to somebody else's.
func lab() *cloud {
	return &cloud{answers: map[string]func(url.Values) (int, string){
		ec2API + "/DescribeInstances": always(instances(
			instance("i-0b", "ip-10-0-0-12.ec2.internal", "running", ours), instance("i-0a", "ip-10-0-0-11.ec2.internal", "running", ours))),
		ec2API + "/DescribeRouteTables": always(`<DescribeRouteTablesResponse><routeTableSet>
<item><routeTableId>rtb-lab</routeTableId><tagSet>` + ours + `</tagSet><routeSet>
 <item><destinationCidrBlock>10.200.1.0/24</destinationCidrBlock><instanceId>i-0b</instanceId><state>blackhole</state></item>
 <item><destinationCidrBlock>10.200.0.0/24</destinationCidrBlock><instanceId>i-0a</instanceId><state>active</state></item>
 <item><destinationCidrBlock>10.200.9.0/24</destinationCidrBlock><networkInterfaceId>eni-9</networkInterfaceId><state>active</state></item>
 <item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>igw-1</gatewayId><state>active</state></item>
</routeSet></item>
<item><routeTableId>rtb-other</routeTableId><tagSet/><routeSet>
 <item><destinationCidrBlock>10.9.0.0/24</destinationCidrBlock><instanceId>i-99</instanceId><state>active</state></item></routeSet></item>
</routeTableSet></DescribeRouteTablesResponse>`),
		elbAPI + "/DescribeLoadBalancers": always(`<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancerDescriptions>
<member><LoadBalancerName>a1</LoadBalancerName><DNSName>a1.elb.amazonaws.com</DNSName><Scheme>internet-facing</Scheme><CreatedTime>2026-01-02T03:04:05.678Z</CreatedTime>
 <Instances><member><InstanceId>i-0b</InstanceId></member><member><InstanceId>i-0a</InstanceId></member></Instances>
 <ListenerDescriptions><member><Listener><Protocol>TCP</Protocol><LoadBalancerPort>443</LoadBalancerPort><InstancePort>31443</InstancePort></Listener></member>
 <member><Listener><Protocol>tcp</Protocol><LoadBalancerPort>80</LoadBalancerPort><InstancePort>31080</InstancePort></Listener></member></ListenerDescriptions></member>
<member><LoadBalancerName>theirs</LoadBalancerName><CreatedTime>2026-01-02T03:04:05Z</CreatedTime></member>
</LoadBalancerDescriptions></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>`),
		elbAPI + "/DescribeTags": always(`<DescribeTagsResponse><DescribeTagsResult><TagDescriptions>
<member><LoadBalancerName>a1</LoadBalancerName><Tags><member><Key>kubernetes.io/cluster/lab</Key><Value>owned</Value></member></Tags></member>
<member><LoadBalancerName>theirs</LoadBalancerName><Tags><member><Key>kubernetes.io/cluster/other</Key><Value>owned</Value></member></Tags></member>
</TagDescriptions></DescribeTagsResult></DescribeTagsResponse>`),
		elbv2API + "/DescribeLoadBalancers": always(`<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers>
<member><LoadBalancerArn>arn:aws:elb:net/n1</LoadBalancerArn><LoadBalancerName>n1</LoadBalancerName><DNSName>n1.elb.amazonaws.com</DNSName><Type>network</Type><Scheme>internal</Scheme>
<CreatedTime>2026-01-02T03:04:05Z</CreatedTime></member></LoadBalancers></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>`),
		elbv2API + "/DescribeTags": always(`<DescribeTagsResponse><DescribeTagsResult><TagDescriptions>
<member><ResourceArn>arn:aws:elb:net/n1</ResourceArn><Tags><member><Key>KubernetesCluster</Key><Value>lab</Value></member></Tags></member></TagDescriptions></DescribeTagsResult></DescribeTagsResponse>`),
		elbv2API + "/DescribeTargetGroups": always(`<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups>
<member><TargetGroupArn>arn:tg/1</TargetGroupArn><Port>32080</Port></member></TargetGroups></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>`),
		elbv2API + "/DescribeTargetHealth": always(`<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions>
<member><Target><Id>i-0b</Id><Port>32080</Port></Target><TargetHealth><State>unhealthy</State></TargetHealth></member>
<member><Target><Id>i-0a</Id><Port>32080</Port></Target><TargetHealth><State>healthy</State></TargetHealth></member>
<member><Target><Id>i-00</Id><Port>32080</Port></Target><TargetHealth><State>draining</State></TargetHealth></member>
</TargetHealthDescriptions></DescribeTargetHealthResult></DescribeTargetHealthResponse>`),
		elbv2API + "/DescribeListeners": always(`<DescribeListenersResponse><DescribeListenersResult><Listeners>
<member><ListenerArn>arn:l/1</ListenerArn><Port>80</Port><Protocol>TCP</Protocol><DefaultActions><member><Type>forward</Type><TargetGroupArn>arn:tg/1</TargetGroupArn></member></DefaultActions></member>
</Listeners></DescribeListenersResult></DescribeListenersResponse>`),
	}}
}

// source is an AWS that talks to the fake cloud only.
func source(t *testing.T, c http.Handler, opts Options) *Account {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return newAccount(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: quick,
	}, opts)
}

// quick retries as the SDK does by itself, without its pauses. Against a server this near some answers are lost: the SDK closes the request's body
// as soon as the answer begins, and the transport may then drop the connection (aws/aws-sdk-go-v2#2737).
func quick() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 10, time.Millisecond })
}

func nodes() []v1.Node {
	return []v1.Node{
		{Name: "ip-10-0-0-11.ec2.internal", ProviderID: "aws:///us-east-1a/i-0a"},
		{Name: "ip-10-0-0-12.ec2.internal", ProviderID: "aws:///us-east-1b/i-0b"},
	}
}

func TestInventory(t *testing.T) {
	c := lab()
	got := source(t, c, Options{}).Inventory(t.Context(), nodes())
	want := &v1.CloudInventory{
		Provider: "aws",
		LoadBalancers: []v1.LoadBalancer{
			{
				ID: "a1@2026-01-02T03:04:05.678Z", Name: "a1", Kind: "classic", Address: "a1.elb.amazonaws.com", Scheme: "internet-facing",
				Created: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Members: []string{"i-0a", "i-0b"}, Listeners: []string{"443/TCP->31443", "80/TCP->31080"},
			},
			{
				ID: "arn:aws:elb:net/n1", Name: "n1", Kind: "network", Address: "n1.elb.amazonaws.com", Scheme: "internal",
				Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Members: []string{"i-0a", "i-0b"}, Listeners: []string{"80/TCP->32080"},
			},
		},
		Routes: []v1.Route{
			{Table: "rtb-lab", CIDR: "10.200.0.0/24", Target: "i-0a", State: "active"},
			{Table: "rtb-lab", CIDR: "10.200.1.0/24", Target: "i-0b", State: "blackhole"},
			{Table: "rtb-lab", CIDR: "10.200.9.0/24", Target: "eni-9", State: "active"},
		},
		Instances: []v1.CloudInstance{
			{
				Node:           "ip-10-0-0-11.ec2.internal",
				ID:             "i-0a",
				State:          "running",
				Found:          true,
				PrivateDNSName: "ip-10-0-0-11.ec2.internal",
				ClusterTags:    labTag,
				ClusterGroups:  new(int),
			},
			{
				Node:           "ip-10-0-0-12.ec2.internal",
				ID:             "i-0b",
				State:          "running",
				Found:          true,
				PrivateDNSName: "ip-10-0-0-12.ec2.internal",
				ClusterTags:    labTag,
				ClusterGroups:  new(int),
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	for _, action := range c.asked {
		if !strings.Contains(action, "/Describe") {
			t.Errorf("the inventory called %s: it only reads", action)
		}
	}
}

func TestAnInstanceIsMissingOnlyWhenEC2SaysSo(t *testing.T) {
	twoNodesOneGone := func(form url.Values) (int, string) {
		if form.Get("InstanceId.1") != "" {
			return refuse("InvalidInstanceID.NotFound", "The instance ID 'i-0b' does not exist")(form)
		}
		if form.Get("Filter.1.Name") != "instance-id" || form.Get("Filter.1.Value.1") != "i-0a" || form.Get("Filter.1.Value.2") != "i-0b" {
			return refuse("InvalidParameterValue", "unexpected filter "+form.Encode())(form)
		}
		return http.StatusOK, instances(instance("i-0a", "ip-10-0-0-11.ec2.internal", "running", ours))
	}
	for name, tc := range map[string]struct {
		answer func(url.Values) (int, string)
		nodes  []v1.Node
		want   []v1.CloudInstance
		errors []string
	}{
		"one id is not known": {
			answer: twoNodesOneGone, nodes: nodes(),
			want: []v1.CloudInstance{
				{Node: "ip-10-0-0-11.ec2.internal", ID: "i-0a", State: "running", Found: true, PrivateDNSName: "ip-10-0-0-11.ec2.internal", ClusterTags: labTag, ClusterGroups: new(int)},
				{Node: "ip-10-0-0-12.ec2.internal", ID: "i-0b"},
			},
		},
		"no id is known": {
			answer: always(instances()), nodes: nodes(),
			errors: []string{"instances: EC2 in region us-east-1 knows none of the nodes' 2 instances: the account or region is not the cluster's"},
		},
		"the call is refused": {
			answer: refuse("UnauthorizedOperation", "You are not authorized to perform this operation."), nodes: nodes(),
			errors: []string{"instances: ec2:DescribeInstances was refused: UnauthorizedOperation: You are not authorized to perform this operation."},
		},
		"a node without a providerID is looked for by its name": {
			answer: func(form url.Values) (int, string) {
				if form.Get("Filter.1.Name") != "private-dns-name" || form.Get("Filter.1.Value.1") != "ip-10-0-0-13.ec2.internal" {
					return refuse("InvalidParameterValue", "unexpected filter "+form.Encode())(form)
				}
				return http.StatusOK, instances(instance("i-0c", "ip-10-0-0-13.ec2.internal", "running", ours))
			},
			nodes: []v1.Node{{Name: "ip-10-0-0-13.ec2.internal"}},
			want: []v1.CloudInstance{
				{Node: "ip-10-0-0-13.ec2.internal", ID: "i-0c", State: "running", Found: true, PrivateDNSName: "ip-10-0-0-13.ec2.internal", ClusterTags: labTag, ClusterGroups: new(int)},
			},
		},
		"a node of another cloud is not asked for": {
			answer: always(instances(instance("i-0a", "ip-10-0-0-11.ec2.internal", "terminated", ours))),
			nodes:  append(nodes()[:1], v1.Node{Name: "virtual", ProviderID: "kind://virtual"}),
			want: []v1.CloudInstance{
				{Node: "ip-10-0-0-11.ec2.internal", ID: "i-0a", State: "terminated", Found: true, PrivateDNSName: "ip-10-0-0-11.ec2.internal", ClusterTags: labTag, ClusterGroups: new(int)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := lab()
			c.answers[ec2API+"/DescribeInstances"] = tc.answer
			got := source(t, c, Options{Cluster: "lab"}).Inventory(t.Context(), tc.nodes)
			if diff := cmp.Diff(tc.want, got.Instances); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.errors, got.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(got.LoadBalancers) != 2 || len(got.Routes) != 3 {
				t.Errorf("the other parts were not read: %+v", got)
			}
		})
	}
}

func TestManyNodesAreAskedForInBatches(t *testing.T) {
	c := lab()
	largest, batches := 0, map[string]bool{} // by what they ask for: an answer that is lost is asked for again
	c.answers[ec2API+"/DescribeInstances"] = func(form url.Values) (int, string) {
		var items []string
		for key := range form {
			if strings.HasPrefix(key, "InstanceId.") {
				items = append(items, instance(form.Get(key), "n-"+form.Get(key), "running", ours))
			}
		}
		slices.Sort(items)
		largest, batches[strings.Join(items, "")] = max(largest, len(items)), true
		return http.StatusOK, instances(items...)
	}
	var many []v1.Node
	for i := range 250 {
		id := fmt.Sprintf("i-%03d", i)
		many = append(many, v1.Node{Name: "n-" + id, ProviderID: "aws:///us-east-1a/" + id})
	}
	got := source(t, c, Options{}).Inventory(t.Context(), many)
	if got.Errors != nil {
		t.Errorf("errors: %q", got.Errors)
	}
	if largest != filterBatch || len(batches) > 3 {
		t.Errorf("%d batches, the largest with %d ids", len(batches), largest)
	}
	if len(got.Instances) != 250 || slices.ContainsFunc(got.Instances, func(i v1.CloudInstance) bool { return !i.Found }) {
		t.Errorf("not every instance was found: %d", len(got.Instances))
	}
}

func TestWhatAnInstanceTellsOfItself(t *testing.T) {
	c := lab()
	c.answers[ec2API+"/DescribeInstances"] = always(instances(`<item><instancesSet><item><instanceId>i-0a</instanceId><instanceType>m5.large</instanceType>
<instanceState><name>running</name></instanceState><privateDnsName>ip-10-0-0-11.ec2.internal</privateDnsName><placement><availabilityZone>us-east-1a</availabilityZone></placement>
<privateDnsNameOptions><hostnameType>resource-name</hostnameType></privateDnsNameOptions><metadataOptions><httpPutResponseHopLimit>1</httpPutResponseHopLimit></metadataOptions>
<iamInstanceProfile><arn>arn:aws:iam::1:instance-profile/nodes</arn></iamInstanceProfile>
<groupSet><item><groupId>sg-1</groupId></item><item><groupId>sg-2</groupId></item><item><groupId>sg-3</groupId></item></groupSet>
<tagSet><item><key>kubernetes.io/cluster/lab</key><value>owned</value></item><item><key>kubernetes.io/cluster/a</key><value>shared</value></item>
<item><key>KubernetesCluster</key><value>lab</value></item><item><key>Name</key><value>x</value></item></tagSet></item></instancesSet></item>`))
	asked := ""
	c.answers[ec2API+"/DescribeSecurityGroups"] = func(form url.Values) (int, string) {
		asked = form.Get("Filter.1.Name") + form.Get("Filter.1.Value.1") + form.Get("Filter.1.Value.3")
		return http.StatusOK, `<DescribeSecurityGroupsResponse><securityGroupInfo>
<item><groupId>sg-1</groupId><tagSet><item><key>kubernetes.io/cluster/lab</key><value>owned</value></item></tagSet></item>
<item><groupId>sg-2</groupId><tagSet><item><key>KubernetesCluster</key><value>lab</value></item></tagSet></item>
<item><groupId>sg-3</groupId><tagSet><item><key>kubernetes.io/cluster/a</key><value>owned</value></item></tagSet></item></securityGroupInfo></DescribeSecurityGroupsResponse>`
	}
	got := source(t, c, Options{Cluster: "lab"}).Inventory(t.Context(), nodes()[:1])
	one, two := 1, 2
	want := []v1.CloudInstance{
		{
			Node:           "ip-10-0-0-11.ec2.internal",
			ID:             "i-0a",
			State:          "running",
			Found:          true,
			PrivateDNSName: "ip-10-0-0-11.ec2.internal",
			HostnameType:   "resource-name",
			Zone:           "us-east-1a",
			Type:           "m5.large",
			ClusterTags:    []string{"a=shared", "lab=legacy", "lab=owned"},
			ClusterGroups:  &two,
			MetadataHops:   &one,
			Profile:        true,
		},
	}
	if diff := cmp.Diff(want, got.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if asked != "group-idsg-1sg-3" {
		t.Errorf("asked for %q", asked)
	}
	c.answers[ec2API+"/DescribeSecurityGroups"] = refuse("UnauthorizedOperation", "no")
	got = source(t, c, Options{Cluster: "lab"}).Inventory(t.Context(), nodes()[:1])
	if diff := cmp.Diff(
		[]string{"securitygroups: ec2:DescribeSecurityGroups was refused: UnauthorizedOperation: no"},
		got.Errors,
	); diff != "" ||
		got.Instances[0].ClusterGroups != nil {
		t.Errorf("errors (-want +got):\n%s, groups %v", diff, got.Instances[0].ClusterGroups)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		action string
		answer func(url.Values) (int, string)
		opts   Options
		want   string
	}{
		"route tables": {ec2API + "/DescribeRouteTables", refuse("UnauthorizedOperation", "no"), Options{}, "routes: ec2:DescribeRouteTables was refused: UnauthorizedOperation: no"},
		"no table is tagged": {
			ec2API + "/DescribeRouteTables", always("<DescribeRouteTablesResponse><routeTableSet/></DescribeRouteTablesResponse>"), Options{},
			"routes: no route table is tagged kubernetes.io/cluster/lab: name it with --cloud=aws:routeTable=ID",
		},
		"classic load balancers": {
			elbAPI + "/DescribeLoadBalancers", refuseELB("AccessDenied", "no"), Options{},
			"loadbalancers: elasticloadbalancing:DescribeLoadBalancers (classic) was refused: AccessDenied: no",
		},
		"classic tags": {elbAPI + "/DescribeTags", refuseELB("AccessDenied", "no"), Options{}, "loadbalancers: elasticloadbalancing:DescribeTags (classic) was refused: AccessDenied: no"},
		"targets":      {elbv2API + "/DescribeTargetHealth", refuseELB("AccessDenied", "no"), Options{}, "loadbalancers: elasticloadbalancing:DescribeTargetHealth was refused: AccessDenied: no"},
	} {
		t.Run(name, func(t *testing.T) {
			c := lab()
			c.answers[tc.action] = tc.answer
			got := source(t, c, tc.opts).Inventory(t.Context(), nodes())
			if diff := cmp.Diff([]string{tc.want}, got.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(got.Instances) != 2 {
				t.Errorf("the instances were lost: %+v", got.Instances)
			}
		})
	}
}

func TestTheClusterIsNamedByTheInstancesTags(t *testing.T) {
	both := ours + "<item><key>kubernetes.io/cluster/other</key><value>shared</value></item>"
	for name, tc := range map[string]struct {
		tags, want string
		opts       Options
	}{
		"one":                       {tags: ours},
		"none":                      {tags: "", want: "no instance of a node has a tag kubernetes.io/cluster/<name>"},
		"several":                   {tags: both, want: "tagged for several clusters (lab, other)"},
		"several, and one is named": {tags: both, opts: Options{Cluster: "lab"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := lab()
			c.answers[ec2API+"/DescribeInstances"] = always(instances(instance("i-0a", "ip-10-0-0-11.ec2.internal", "running", tc.tags)))
			got := source(t, c, tc.opts).Inventory(t.Context(), nodes()[:1])
			text := strings.Join(got.Errors, "\n")
			if tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("got errors %q, want %q", text, tc.want)
			}
		})
	}
}

func TestARouteTableCanBeNamed(t *testing.T) {
	c := lab()
	asked := ""
	tables := c.answers[ec2API+"/DescribeRouteTables"]
	c.answers[ec2API+"/DescribeRouteTables"] = func(form url.Values) (int, string) {
		asked = form.Get("RouteTableId.1")
		return tables(form)
	}
	source(t, c, Options{RouteTable: "rtb-lab"}).Inventory(t.Context(), nodes())
	if asked != "rtb-lab" {
		t.Errorf("asked for route table %q", asked)
	}
}

func TestAnEndpointThatDoesNotAnswerIsNamed(t *testing.T) {
	a := source(t, lab(), Options{Cluster: "lab"})
	gone := httptest.NewServer(http.NotFoundHandler())
	address := gone.URL
	gone.Close()
	a = newAccount(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(address), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: quick,
	}, a.opts)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := a.Inventory(ctx, nodes())
	if len(got.Errors) != 4 || !strings.Contains(got.Errors[0], "ec2:DescribeInstances did not reach "+address+": ") {
		t.Errorf("got errors %q", got.Errors)
	}
	if got.Instances != nil || got.Routes != nil || got.LoadBalancers != nil {
		t.Errorf("nothing answered and something is known: %+v", got)
	}
}

func TestMissingCredentialsAreNotAnAddress(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_REGION", "us-east-1")
	server := httptest.NewServer(lab())
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	s, err := Open(t.Context(), map[string]string{"cluster": "lab"})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Inventory(t.Context(), nodes())
	if len(got.Errors) == 0 || !strings.Contains(got.Errors[0], "ec2:DescribeInstances was not tried: there are no AWS credentials") {
		t.Errorf("got errors %q", got.Errors)
	}
}

func TestOpen(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, c := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"no settings":    {nil, ""},
		"every setting":  {map[string]string{"cluster": "lab", "routeTable": "rtb-1"}, ""},
		"an unknown one": {map[string]string{"zone": "a"}, `there is no setting "zone"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), c.settings)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("no region", func(t *testing.T) {
		t.Setenv("AWS_REGION", "")
		t.Setenv("AWS_DEFAULT_REGION", "")
		t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
		if _, err := Open(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "export AWS_REGION") {
			t.Errorf("got %v", err)
		}
	})
}
