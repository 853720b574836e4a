package auditlog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What kube-apiserver v1.26 writes, shortened.
const log = `{"kind":"Event","stage":"ResponseStarted","requestURI":"/api/v1/nodes?watch=true","verb":"watch","user":{"username":"a"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/nodes?watch=true","verb":"watch","user":{"username":"a"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"a"},"objectRef":{"resource":"pods"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/x/deployments/y/scale?dryRun=All","verb":"update","user":{"username":"b"},"objectRef":{"resource":"deployments","subresource":"scale","namespace":"x","name":"y","apiGroup":"apps"},"responseStatus":{"code":200},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/metrics","verb":"get","user":{"username":"b"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"Panic","requestURI":"/api","verb":"get","user":{"username":"b"},"responseStatus":{"code":500}}
`

func TestEachRequestCountsOnce(t *testing.T) {
	got, err := Parse([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{
		{User: "a", Verb: "watch", Resource: "nodes", URI: "/api/v1/nodes?watch=true", Code: 200},
		{User: "a", Verb: "watch", Resource: "pods", URI: "/api/v1/pods?watch=true", Code: 403, Forbidden: true},
		{
			User: "b", Verb: "update", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "x", Name: "y",
			URI: "/apis/apps/v1/namespaces/x/deployments/y/scale?dryRun=All", DryRun: true, Code: 200,
		},
		{User: "b", Verb: "get", URI: "/metrics", Code: 200},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestALineThatIsNotWholeIsAnError(t *testing.T) {
	if _, err := Parse([]byte(log + `{"stage":`)); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("error %v", err)
	}
}
