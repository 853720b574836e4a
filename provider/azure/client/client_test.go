package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/transplant-dev/transplant/provider/transport"
)

const group = "/subscriptions/s/resourceGroups/g/providers/"

func TestRequestsAreDescribedWithoutNames(t *testing.T) {
	for path, want := range map[string]string{
		group + "Microsoft.Network/loadBalancers/lab":                             "network GET loadBalancers/{name}",
		group + "Microsoft.Network/loadBalancers":                                 "network GET loadBalancers",
		group + "Microsoft.Network/loadBalancers/lab/backendAddressPools/p":       "network GET loadBalancers/{name}/backendAddressPools/{name}",
		group + "microsoft.Compute/virtualMachineScaleSets/w/virtualMachines":     "compute GET virtualMachineScaleSets/{name}/virtualMachines",
		"/subscriptions/s/providers/Microsoft.Network/locations/l/operations/o-1": "network GET operations/{name}",
		"/subscriptions/s/providers/Microsoft.Compute":                            "compute GET provider",
		"/metadata/endpoints": "manager GET other",
		"/x/providers/":       "manager GET other",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://azure.invalid"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := operation(request); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// answering answers with a status and a body, and counts.
type answering struct {
	status int
	body   string
	asked  int
}

func (c *answering) RoundTrip(in *http.Request) (*http.Response, error) {
	c.asked++
	return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body)), Header: http.Header{}, Request: in}, nil
}

func ask(t *testing.T, over http.RoundTripper, method, path string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://azure.invalid"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := over.RoundTrip(request)
	if err == nil {
		_ = out.Body.Close()
	}
	return err
}

// TestWhichAnswersAreBelieved: upstream takes any 404 for "does not exist", and an empty list for "there is nothing".
func TestWhichAnswersAreBelieved(t *testing.T) {
	refusal := func(code string) string { return fmt.Sprintf(`{"error": {"code": %q, "message": "a\nb"}}`, code) }
	for name, c := range map[string]struct {
		method  string
		status  int
		body    string
		missing bool
		strange bool
	}{
		"an object that is gone":     {http.MethodGet, 404, refusal("ResourceNotFound"), true, false},
		"a group that is not there":  {http.MethodGet, 404, refusal("ResourceGroupNotFound"), false, false},
		"a page of a proxy":          {http.MethodGet, 404, "<html>", false, true},
		"a page in place of a list":  {http.MethodGet, 200, "<html>", false, true},
		"nothing in place of a list": {http.MethodGet, 200, "", false, true},
		"nothing after a change":     {http.MethodPut, 200, "", false, true},
		"a list in place of objects": {http.MethodGet, 200, "[]", false, true},
		"a redirection":              {http.MethodGet, 302, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t, &answers{next: &answering{status: c.status, body: c.body}, timeout: DefaultRequestTimeout}, c.method, group+"Microsoft.Network/x/y")
			var strange *transport.StrangeAnswerError
			if err == nil || IsNotFound(err) != c.missing || errors.As(err, &strange) != c.strange || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v", err)
			}
			var sdk *azcore.ResponseError
			if errors.As(err, &sdk) && (sdk.StatusCode == http.StatusNotFound) != c.missing {
				t.Errorf("upstream sees %d", sdk.StatusCode)
			}
		})
	}
	if err := ask(t, &answers{next: &answering{status: 202}, timeout: DefaultRequestTimeout}, http.MethodDelete, group+"x"); err != nil {
		t.Errorf("a deletion that has begun: %v", err)
	}
}

// TestACallReadsOnceUntilItChanges what it has read.
func TestACallReadsOnceUntilItChanges(t *testing.T) {
	sent := &answering{status: 200, body: "{}"}
	bound := bind(sent)
	machines, nic := group+"Microsoft.Compute/virtualMachines/m", group+"Microsoft.Network/networkInterfaces/n"
	balancer, address := group+"Microsoft.Network/loadBalancers/b", group+"Microsoft.Network/publicIPAddresses/a"
	if err := ask(t, bound, http.MethodGet, balancer); !errors.Is(err, transport.ErrNoCall) || sent.asked != 0 {
		t.Errorf("without a call: %v, %d sent", err, sent.asked)
	}
	bound.Use(transport.NewCall(t.Context()))
	reads := func(want int) {
		t.Helper()
		before := sent.asked
		for _, path := range []string{machines, nic, balancer, address, balancer} {
			if err := ask(t, bound, http.MethodGet, path); err != nil {
				t.Error(err)
			}
		}
		if got := sent.asked - before; got != want {
			t.Errorf("%d requests were sent, want %d", got, want)
		}
	}
	reads(4)
	reads(0)
	if err := ask(t, bound, http.MethodPut, address); err != nil {
		t.Error(err)
	}
	reads(2) // the network, and no machine and interface
	if err := ask(t, bound, http.MethodPut, machines); err != nil {
		t.Error(err)
	}
	reads(3)
	bound.Use(transport.NewCall(t.Context()))
	reads(4)
}

// replying answers each request as it says.
type replying func(in *http.Request) (header http.Header, body string)

func (r replying) RoundTrip(in *http.Request) (*http.Response, error) {
	header, body := r(in)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: header, Request: in}, nil
}

// TestAnOperationThatFailsIsItsChange's failure: upstream may only log it, and the SDK's error has several lines.
func TestAnOperationThatFailsIsItsChange(t *testing.T) {
	const poll = "/subscriptions/s/providers/Microsoft.Network/locations/l/operations/o-1"
	for status, says := range map[string]string{
		"InProgress": "", "Succeeded": "",
		"Failed":   "Azure accepted network PUT loadBalancers/{name}, and its operation has ended as Failed: ResourceNotFound: a b",
		"Canceled": "Azure accepted network PUT loadBalancers/{name}, and its operation has ended as Canceled: ResourceNotFound: a b",
	} {
		t.Run(status, func(t *testing.T) {
			sent := &answers{timeout: DefaultRequestTimeout, next: replying(func(in *http.Request) (http.Header, string) {
				if in.Method == http.MethodPut {
					return http.Header{"Azure-Asyncoperation": {"https://azure.invalid" + poll}}, "{}"
				}
				return http.Header{}, fmt.Sprintf(`{"status": %q, "error": {"code": "ResourceNotFound", "message": "a\nb"}}`, status)
			})}
			bound, call := bind(sent), transport.NewCall(t.Context())
			bound.Use(call)
			if err := ask(t, bound, http.MethodPut, group+"Microsoft.Network/loadBalancers/lab"); err != nil {
				t.Fatal(err)
			}
			err := ask(t, bound, http.MethodGet, poll)
			var sdk *azcore.ResponseError
			switch {
			case says == "" && (err != nil || call.Correct(nil) != nil):
				t.Errorf("the error is %v", err)
			case says == "":
			case err == nil || err.Error() != says || IsNotFound(err) || !errors.As(err, &sdk) || sdk.StatusCode == http.StatusNotFound:
				t.Errorf("the error is %v", err)
			case call.Correct(nil) == nil:
				t.Error("upstream may take the change for made")
			}
			if left := len(sent.begun.of); (left == 0) != (status != "InProgress") {
				t.Errorf("%d operations are remembered", left)
			}
		})
	}
}

// TestUpstreamSeesNoFailedInterface: it would skip it in silence. Of other objects it sees the state.
func TestUpstreamSeesNoFailedInterface(t *testing.T) {
	const body = `{"name":"n","properties":{"provisioningState":"Failed","ipConfigurations":[{"name":"c"}],"number":12345678901234567890}}`
	for path, want := range map[string]string{
		"networkInterfaces/n": strings.Replace(body, "Failed", "Succeeded", 1), "publicIPAddresses/n": body,
	} {
		bound := bind(&answering{status: 200, body: body})
		bound.Use(transport.NewCall(t.Context()))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://azure.invalid"+group+"Microsoft.Network/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := bound.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(out.Body)
		_ = out.Body.Close()
		var have, wanted any
		if err != nil || json.Unmarshal(got, &have) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
			t.Fatalf("%s: %s (%v)", path, got, err)
		}
		if !reflect.DeepEqual(have, wanted) || !strings.Contains(string(got), "12345678901234567890") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
