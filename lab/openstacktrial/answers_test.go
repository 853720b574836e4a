package openstacktrial

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/transplant-dev/transplant/lab/openstackreal"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

var update = flag.Bool("update", false, "write the answers of the OpenStack under test to testdata")

// answersFile has the answers that both the simulator and the real OpenStack of lab/openstackreal have to give. They
// were written from the simulator, and compared with the sources of Debian 12's Zed: Keystone 22, Nova 26, Neutron 21
// and Octavia 11 (API v2.26).
const answersFile = "testdata/answers.txt"

func TestTheSimulatorAnswersAsRecorded(t *testing.T) {
	sim := simulator(t)
	sim.SetPending(-1) // until FinishPending: a change under way is refused, however slow the test is
	subnet := sim.AddSubnet(openstacksim.Subnet{Name: "nodes", Network: "nodes", CIDR: "10.0.0.0/16", Gateway: "10.0.0.1"})
	group := sim.AddSecurityGroup("lb-sg-answers", openstacksim.Rule{Prefix: "192.0.2.0/24", Protocol: "tcp", Port: 30080})
	user := login(t, sim.URL(), openstacksim.User, "demo", openstacksim.Password)
	a := newAsker(t, sim, user, sim.FinishPending)
	standard := sim.AddSecurityGroup("default")
	for _, p := range sim.Ports() { // Neutron gives each the standard group
		sim.ChangePort(p.ID, func(p *openstacksim.Port) { p.Groups = []string{standard} })
	}
	a.know(map[string]string{
		"network": "nodes", "subnet": subnet, "external": "public", "group": group, "keystone": strings.TrimSuffix(sim.URL(), "/"),
	})
	a.compare(t)
	sim.noneUnknown(t, sim.Calls())
}

// The real OpenStack has to give the answers that the simulator gives.
func TestARealOpenStackAnswersAsRecorded(t *testing.T) {
	s := realStack(t)
	user := login(t, openstackreal.AuthURL, openstackreal.User, openstackreal.Project, openstackreal.Password)
	a := newAsker(t, s, user, func() {})
	a.know(map[string]string{
		"network": s.Network(), "subnet": s.Subnet(), "external": s.ExternalNetwork(), "group": addGroup(t, user),
		"keystone": openstackreal.AuthURL,
	})
	t.Cleanup(func() { a.clear(context.WithoutCancel(t.Context())) })
	a.compare(t)
}

// addGroup makes a security group with a rule, as the in-tree provider has made them.
func addGroup(t *testing.T, user *gophercloud.ProviderClient) string {
	t.Helper()
	neutron, err := openstack.NewNetworkV2(user, gophercloud.EndpointOpts{Region: openstackreal.Region})
	if err != nil {
		t.Fatal(err)
	}
	group, err := groups.Create(t.Context(), neutron, groups.CreateOpts{Name: "lb-sg-answers"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = groups.Delete(context.WithoutCancel(t.Context()), neutron, group.ID).ExtractErr() }) // it may be gone
	for _, r := range group.Rules {                                                                             // those of egress, which Neutron makes
		if err := rules.Delete(t.Context(), neutron, r.ID).ExtractErr(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = rules.Create(t.Context(), neutron, rules.CreateOpts{
		SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP,
		PortRangeMin: 30080, PortRangeMax: 30080, RemoteIPPrefix: "192.0.2.0/24",
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return group.ID
}

// asker sends the calls to an OpenStack.
type asker struct {
	site

	user     *gophercloud.ProviderClient
	services map[string]*gophercloud.ServiceClient
	finish   func() // ends what is PENDING, where that does not end by itself
	// values are what the calls name in braces.
	values map[string]string
	reads  fieldsRead
}

func newAsker(t *testing.T, s site, user *gophercloud.ProviderClient, finish func()) *asker {
	t.Helper()
	a := &asker{site: s, user: user, finish: finish, services: map[string]*gophercloud.ServiceClient{}, reads: readFields(t)}
	for kind, open := range map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		nova: openstack.NewComputeV2, neutron: openstack.NewNetworkV2, octavia: openstack.NewLoadBalancerV2,
	} {
		var err error
		if a.services[kind], err = open(user, gophercloud.EndpointOpts{Region: "RegionOne"}); err != nil {
			t.Fatal(err)
		}
	}
	worker := s.addServers(t, "worker-0")[0]
	a.values = map[string]string{
		"server": worker.id, "address": worker.address, "router": s.router(), "none": "99999999-0000-4000-8000-000000000009",
	}
	return a
}

func (a *asker) know(values map[string]string) {
	for name, value := range values {
		a.values[name] = value
	}
}

func (a *asker) fill(text string) string {
	for name, value := range a.values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// compare takes the OpenStack through all calls, and compares its answers with the recorded ones.
func (a *asker) compare(t *testing.T) {
	t.Helper()
	var got strings.Builder
	for _, c := range calls {
		if c.waits {
			a.untilActive(t)
		}
		status, body := a.ask(t, c)
		fmt.Fprintf(&got, "%s\n  %s %s %s\n  %d\n", c.name, c.service, c.method, c.path, status)
		if c.reads != nil {
			for _, line := range a.reads.shape(body, c.reads) {
				got.WriteString("    " + line + "\n")
			}
		}
		for name, at := range c.keeps {
			value, err := valueAt(body, at)
			if err != nil {
				t.Fatalf("%s: status %d, %v in %v", c.name, status, err, body)
			}
			a.values[name] = value
		}
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(answersFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(answersFile, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("answers (-recorded +given; -update writes them):\n%s", diff)
	}
}

// untilActive waits until the load balancer takes changes again, or is gone.
func (a *asker) untilActive(t *testing.T) {
	t.Helper()
	a.finish()
	until(t, "the load balancer to take changes", func(context.Context) string {
		_, body := a.ask(t, call{service: octavia, method: http.MethodGet, path: "lbaas/loadbalancers/{lb}"})
		if status, err := valueAt(body, "loadbalancer.provisioning_status"); err == nil && strings.HasPrefix(status, "PENDING") {
			return "it is " + status
		}
		return ""
	})
}

// url is where a call goes.
func (a *asker) url(c call) string {
	switch c.service {
	case keystone:
		return a.fill("{keystone}/" + c.path)
	case octavia:
		if c.path == "" { // its versions
			base, _ := utils.BaseEndpoint(a.services[octavia].Endpoint) // as gophercloud's apiversions does
			return strings.TrimRight(base, "/") + "/"
		}
	}
	return a.services[c.service].ServiceURL() + a.fill(c.path)
}

// ask sends one call, and returns the answer as it is.
func (a *asker) ask(t *testing.T, c call) (status int, body any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, c.method, a.url(c), strings.NewReader(a.fill(c.body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if c.service != keystone {
		request.Header.Set("X-Auth-Token", a.user.Token())
	}
	if c.service == nova { // as gophercloud asks for client.computeMicroversion
		request.Header.Set("X-OpenStack-Nova-API-Version", "2.47")
		request.Header.Set("OpenStack-API-Version", "compute 2.47")
	}
	for name, value := range c.header {
		request.Header.Set(name, a.fill(value))
	}
	answer, err := a.user.HTTPClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	defer answer.Body.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(answer.Body); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if json.Unmarshal(data.Bytes(), &body) != nil {
		body = data.String() // no JSON: none of the keys that are wanted is in it
	}
	return answer.StatusCode, body
}

// clear removes what a test that has failed leaves in a real OpenStack.
func (a *asker) clear(ctx context.Context) {
	for service, path := range map[string]string{
		octavia: "lbaas/loadbalancers/{lb}?cascade=true", neutron: "floatingips/{floating}",
	} {
		filled := a.fill(path)
		if strings.Contains(filled, "{") {
			continue
		}
		_, _ = a.services[service].Delete(ctx, a.services[service].ServiceURL()+filled, nil) // it may be gone
	}
}

// valueAt is a value of an answer; numbers in the way are places in lists.
func valueAt(body any, path string) (string, error) {
	for key := range strings.SplitSeq(path, ".") {
		switch in := body.(type) {
		case map[string]any:
			body = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				return "", fmt.Errorf("there is no %s", path)
			}
			body = in[i]
		}
	}
	switch value := body.(type) {
	case string:
		return value, nil
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("there is no %s", path)
}

// typeOf is the JSON type of a value.
func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "object"
}

// sortedLines are the lines of a set.
func sortedLines(set map[string]bool) (lines []string) {
	for line := range set {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}
