package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdkcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

// routeTable is a route table as Resource Manager serves it, without a network.
type routeTable struct {
	t    *testing.T
	hold chan struct{} // a write waits until it is closed; nil for none

	mu      sync.Mutex
	version int
	routes  []any
	writes  int
	others  int // how many writes come after one of others
}

// RoundTrip implements http.RoundTripper.
func (s *routeTable) RoundTrip(in *http.Request) (*http.Response, error) {
	if in.Method == http.MethodPut && s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := http.StatusOK
	switch {
	case !strings.HasSuffix(in.URL.Path, "/routeTables/table"):
		s.t.Errorf("it is asked %s %s", in.Method, in.URL)
		status = http.StatusNotImplemented
	case in.Method == http.MethodPut:
		status = s.put(in)
	}
	if status != http.StatusOK {
		return answerOf(in, status, map[string]any{"error": map[string]any{"code": "PreconditionFailed", "message": "The ETag is another one."}}), nil
	}
	return answerOf(in, status, map[string]any{
		"id": in.URL.Path, "name": "table", "location": "l", "etag": s.etag(),
		"properties": map[string]any{"routes": s.routes, "provisioningState": "Succeeded"},
	}), nil
}

func (s *routeTable) etag() string { return fmt.Sprintf(`W/"%d"`, s.version) }

// put writes the table as it is sent, if it is sent with the ETag that the table has.
func (s *routeTable) put(in *http.Request) (status int) {
	s.writes++
	if s.others > 0 {
		s.others--
		s.version++
		s.routes = append(s.routes, map[string]any{
			"name": fmt.Sprintf("theirs-%d", s.version), "properties": map[string]any{"addressPrefix": "192.0.2.0/24", "nextHopType": "Internet"},
		})
	}
	if in.Header.Get("If-Match") != s.etag() {
		return http.StatusPreconditionFailed
	}
	var sent struct {
		Properties struct {
			Routes []any `json:"routes"`
		} `json:"properties"`
	}
	if err := json.NewDecoder(in.Body).Decode(&sent); err != nil {
		s.t.Error(err)
	}
	s.version++
	s.routes = sent.Properties.Routes
	return http.StatusOK
}

func (s *routeTable) has() (routes, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.routes), s.writes
}

func answerOf(in *http.Request, status int, body map[string]any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is made of strings
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: in,
	}
}

// aToken is a credential that Resource Manager takes.
type aToken struct{}

func (aToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func routesOf(t *testing.T, table *routeTable) *routes {
	t.Helper()
	conf, err := readConfig([]byte(strings.Replace(whole, `"location"`, `"routeTableName": "table", "location"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	gate := &transport.Gate{}
	gate.Use(election.Unfenced(time.Now()))
	reach, err := client.New(client.Options{
		Subscription: "s", Network: "s", Cloud: sdkcloud.AzurePublic, Credential: aToken{}, NetworkCredential: aToken{}, Gate: gate, Next: table,
	})
	if err != nil {
		t.Fatal(err)
	}
	return newRoutes(reach, conf, gate)
}

func routeTo(number int) *cloudprovider.Route {
	return &cloudprovider.Route{
		TargetNode: types.NodeName(fmt.Sprintf("node-%d", number)), DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", number),
		TargetNodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", number+1)}},
	}
}

// TestRoutesAreWrittenTogether: those that come while one is written are written by one request.
func TestRoutesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &routeTable{t: t, hold: make(chan struct{})}
		r := routesOf(t, table)
		const count = 50
		ended := make(chan error, count)
		for i := range count {
			go func() { ended <- r.CreateRoute(t.Context(), "lab", "", routeTo(i)) }()
		}
		synctest.Wait() // one is written, and the others wait
		close(table.hold)
		for range count {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if routes, writes := table.has(); routes != count || writes > 2 {
			t.Errorf("the table has %d routes after %d writes", routes, writes)
		}
		if err := r.CreateRoute(t.Context(), "lab", "", routeTo(7)); err != nil {
			t.Error(err)
		}
		if _, writes := table.has(); writes > 2 {
			t.Error("a route that is there is written again")
		}
	})
}

// TestATableThatOthersChange keeps their routes: it is read again, some times.
func TestATableThatOthersChange(t *testing.T) {
	for others, isMade := range map[int]bool{1: true, maxWrites - 1: true, maxWrites: false} {
		t.Run(fmt.Sprintf("%d times", others), func(t *testing.T) {
			table := &routeTable{t: t, others: others}
			err := routesOf(t, table).CreateRoute(t.Context(), "lab", "", routeTo(1))
			routes, writes := table.has()
			if isMade && (err != nil || routes != others+1 || writes != others+1) {
				t.Errorf("the table has %d routes after %d writes: %v", routes, writes, err)
			}
			if !isMade && (err == nil || !strings.Contains(err.Error(), "PreconditionFailed") || routes != others || writes != maxWrites) {
				t.Errorf("the table has %d routes after %d writes, and the error is %v", routes, writes, err)
			}
		})
	}
}

// TestAChangeThatIsGivenUp while it waits is not made, and the others are.
func TestAChangeThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &routeTable{t: t, hold: make(chan struct{})}
		r := routesOf(t, table)
		create := func(ctx context.Context, number int) chan error {
			ended := make(chan error, 1)
			go func() { ended <- r.CreateRoute(ctx, "lab", "", routeTo(number)) }()
			synctest.Wait()
			return ended
		}
		first := create(t.Context(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		givenUp, kept := create(ctx, 2), create(t.Context(), 3)
		cancel()
		if err := <-givenUp; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `10.244.2.0/24 of node "node-2"`) {
			t.Errorf("the one that is given up ends with %v", err)
		}
		close(table.hold)
		for _, ended := range []chan error{first, kept} {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		ended, stop := context.WithCancel(t.Context())
		stop()
		if err := <-create(ended, 4); !errors.Is(err, context.Canceled) {
			t.Errorf("one that has ended before ends with %v", err)
		}
		all, err := r.ListRoutes(t.Context(), "lab")
		if err != nil || len(all) != 2 || all[0].TargetNode != "node-1" || all[1].TargetNode != "node-3" || len(r.waiting) > 0 {
			t.Errorf("there are %d routes, %d wait: %v", len(all), len(r.waiting), err)
		}
	})
}
