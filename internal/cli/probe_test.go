package cli

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// published is a Service whose load balancer listens here.
func (c *live) published(name string) net.Listener {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // a connection stays open until its other end closes it
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	c.api.Put(c.t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: int32(l.Addr().(*net.TCPAddr).Port), Protocol: corev1.ProtocolTCP}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "127.0.0.1"}}}},
	})
	return l
}

func TestProbeOfAClusterThatIsWell(t *testing.T) {
	c := newLive(t)
	balancer := c.published("web")
	log := filepath.Join(t.TempDir(), "probes.jsonl")
	before := len(c.api.Writes())
	r := c.run("probe", "--for", "1200ms", "--interval", "50ms", "--budget", "1s", "--log", log)
	if r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	for _, part := range []string{"PATH", "✓   API reads over a kept connection", "✓   API reads over a new connection each time", "✓   API watch leases in kube-system", "✓   1 load balancer port", "kept"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("the table does not say %q:\n%s", part, r.out)
		}
	}
	if len(c.api.Writes()) != before {
		t.Errorf("probing wrote: %v", c.api.Writes()[before:])
	}
	if err := balancer.Close(); err != nil {
		t.Fatal(err)
	}
	// The log is gone on with: what was probed before is out now, and not left out.
	r = c.run("probe", "--for", "700ms", "--interval", "50ms", "--budget", "100ms", "--log", log, "-o", "json")
	fails(t, r, exitcode.Unverified, "TCP shop/web "+balancer.Addr().String()+" was out for", "the budget is 0.1 s", "out: TCP shop/web")
	var d v1.Disruption
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Kind != v1.KindDisruption || d.Result != v1.DisruptionOver || len(d.NotProbed) > 0 || len(d.Unobserved) != 1 {
		t.Errorf("disruption is %+v", d)
	}
}

func TestAnOutageThatIsTakenBackIsNamed(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 7, 0, time.Local)
	e := v1.ProbeEvent{Time: began.Add(time.Minute), Event: v1.ProbeIdle, Kind: v1.PathTCPKept, Path: "shop/web", Since: &began}
	want := "kept connection to shop/web is closed each time that it was idle for as long: the outage at 12:00:07 is taken back"
	if got := describeIdle(e); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestWhatCannotBeProbedIsRefused(t *testing.T) {
	c := newLive(t)
	for _, flags := range [][]string{
		{"--interval", "1ms", "an interval of 1ms between two looks: give 50ms or more"},
		{"--timeout", "1ms", "a timeout of 1ms for a look"},
		{"--budget", "-1s", `invalid argument "-1s" for --budget`},
		{"--url", "shop.example.com", `URL "shop.example.com": give one with its scheme`},
		{"--url", "https://ops:secret@shop.example.com/", "a URL with a password"},
		{"--connect-to", "lb.example.com", `connecting to "lb.example.com": give HOST[:PORT]=ADDRESS[:PORT]`},
		{"-o", "html", "give text, wide, json or yaml"},
	} {
		r := c.run(append([]string{"probe", "--for", "1ms"}, flags[:2]...)...)
		fails(t, r, exitcode.Error, flags[2])
		if strings.Contains(r.errOut, "secret") {
			t.Errorf("the password is printed: %s", r.errOut)
		}
	}
	fails(t, c.run("apply", "--probe", "--probe-interval", "1ms"), exitcode.Error, "give 50ms or more")
	fails(t, c.run("rollback", "--probe", "--probe-url", "x"), exitcode.Error, "give one with its scheme")
}

func TestALogThatSomebodyBrokeIsNamed(t *testing.T) {
	c := newLive(t)
	log := filepath.Join(t.TempDir(), "probes.jsonl")
	if err := os.WriteFile(log, []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, c.run("probe", "--for", "1ms", "--log", log), exitcode.Error, log, "line 1")
	c.journal(v1.RunApplied, 1000, 0)
	fails(t, c.run("verify", "--disruption-log", filepath.Join(t.TempDir(), "nothing")), exitcode.Error, "reading the disruption log")
}

func TestVerifyNamesWhoChangedWhat(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunRolledBack, 1000, 0)
	if r := c.run(
		"verify",
	); r.code != exitcode.OK || !strings.Contains(r.out, "✓ nodes: 2, with their addresses") ||
		!strings.Contains(r.out, "- load-balancers: the cloud was not looked at") {
		t.Fatal(r.text(nil))
	}
	c.api.Delete("/api/v1/nodes/node-cp-2")
	c.api.Put(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-cp-2"},
		Reason:         "DeletingNode",
		Message:        "the instance is gone",
		Source:         corev1.EventSource{Component: "cloud-node-lifecycle-controller"},
		LastTimestamp:  metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
	})
	node := &corev1.Node{}
	if !c.api.Get(t, "/api/v1/nodes/node-cp-1", node) {
		t.Fatal("no node")
	}
	node.Labels = map[string]string{"team": "shop"}
	written := metav1.NewTime(time.Now().Add(time.Hour))
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-label", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: ptr.To(written),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:team":{}}}}`)},
	}
	c.api.Put(t, node)
	r := c.run("verify")
	fails(t, r, exitcode.Unverified, "the cluster was left as it is")
	for _, part := range []string{"✗ nodes: ", "Node/node-cp-2 is gone (event DeletingNode of cloud-node-lifecycle-controller at 2026-11-21 12:00:00: the instance is gone)",
		"Node/node-cp-1: label team was empty and is shop (written by kubectl-label", "transplant verify --accept 'Node/node-cp-"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("verify does not say %q:\n%s", part, r.out)
		}
	}
	if r := c.run(
		"verify",
		"-o",
		"junit",
	); r.code != exitcode.Unverified || !strings.Contains(r.out, `<testcase classname="verification" name="nodes nodes are as before">`) ||
		!strings.Contains(r.out, "<failure") {
		t.Error(r.text(nil))
	}
	r = c.run("verify", "--accept", "Node/node-cp-2=taken down", "--accept", "Node/* label team=ours", "--accept", "Node/x=y")
	if !strings.Contains(r.out, "accepted: Node/node-cp-2: object · reason: taken down") || !strings.Contains(r.errOut, "--accept Node/x is not needed") ||
		strings.Contains(r.out, "✗ nodes") {
		t.Error(r.text(nil))
	}
	fails(t, c.run("verify", "--accept", "Node/x"), exitcode.Error, "give an object and a reason")

	// A report takes the same reasons, and what a run has written down needs none.
	lost := func(args ...string) bool {
		return strings.Contains(c.run(append([]string{"report"}, args...)...).out, "Node/node-cp-2 is gone")
	}
	if !lost() || lost("--accept", "Node/node-cp-2=taken down") {
		t.Error("a report does not call lost what nobody accepted, or does what is accepted")
	}
	kube, _ := c.api.Clients(t)
	j, err := journal.Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Accept(t.Context(), []v1.AcceptedDifference{{Difference: "Node/node-cp-2", Reason: "taken down", At: client.Now(), By: "anna@desk"}}); err != nil {
		t.Fatal(err)
	}
	if r := c.run("verify"); lost() || !strings.Contains(r.out, "accepted: Node/node-cp-2: object · reason: taken down (anna@desk, ") {
		t.Errorf("what the journal accepts is not honoured:\n%s", r.out)
	}
}
