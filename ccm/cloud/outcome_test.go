package cloud

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
)

// endpoint is a server of a test, in some state of failure.
type endpoint struct {
	url    string
	client *http.Client
}

// boundOnly is an address that refuses connections: a socket has it and does not listen. A port that was closed may be
// another listener's a moment later.
func boundOnly(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port) //nolint:forcetypeassert // it was bound to one
}

func newEndpoint(t *testing.T, url string) endpoint {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return endpoint{url, &http.Client{Transport: transport, Timeout: time.Minute}}
}

// answering answers every request with a status and a body.
func answering(t *testing.T, code int, body string) endpoint {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return newEndpoint(t, server.URL)
}

// listening takes connections and does something with each.
func listening(t *testing.T, with func(net.Conn)) endpoint {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { with(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	return newEndpoint(t, "http://"+listener.Addr().String())
}

// named is an endpoint whose name is resolved by a DNS server that answers with a code, or never.
func named(t *testing.T, rcode byte, silent bool) endpoint {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for buffer := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			answer := slices.Clone(buffer[:n])
			answer[2], answer[3] = answer[2]|0x80, 0x80|rcode // an answer, and recursion is available
			binary.BigEndian.PutUint16(answer[10:], 0)        // without the additional records of the question
			if !silent {
				_, _ = server.WriteTo(answer[:n-11], from) // the question had one of 11 bytes, for EDNS
			}
		}
	})
	t.Cleanup(func() { _ = server.Close(); wg.Wait() })
	var (
		mu    sync.Mutex
		conns []net.Conn
		over  bool
	)
	e := newEndpoint(t, "http://ec2.eu-west-9.example.com")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return nil, net.ErrClosed
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		if err == nil {
			conns = append(conns, conn)
		}
		return conn, err
	}}
	t.Cleanup(func() { // the resolver waits for longer than the dialer
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	dialer := &net.Dialer{Resolver: resolver, Timeout: time.Minute}
	if silent {
		dialer.Timeout = 300 * time.Millisecond
	}
	e.client.Transport.(*http.Transport).DialContext = dialer.DialContext
	return e
}

// plain makes a request as a simple SDK does: a status that is no success becomes an error with that status.
func (e endpoint) plain(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("describing the instance: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("describing the instance: %w", statusError(response.StatusCode))
	}
	return nil
}

// aws makes a request with the SDK of AWS.
func (e endpoint) aws(ctx context.Context) error {
	client := ec2.New(ec2.Options{
		Region: "eu-west-9", BaseEndpoint: &e.url, HTTPClient: e.client, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: sdk.NopRetryer{},
	})
	_, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	return err
}

func ec2Error(code string) string {
	return `<?xml version="1.0"?><Response><Errors><Error><Code>` + code + `</Code><Message>It is so.</Message></Error></Errors>` +
		`<RequestID>r</RequestID></Response>`
}

func TestRealFailuresOfConnectionsAndAnswersAreToldApart(t *testing.T) {
	resetting := listening(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	})
	refusing := listening(t, func(c net.Conn) { _ = c.Close() })
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // what the client does not like about its certificate
	secure.StartTLS()
	t.Cleanup(secure.Close)
	silence := listening(t, func(c net.Conn) { defer c.Close(); _, _ = io.Copy(io.Discard, c) })
	silence.client.Timeout = 100 * time.Millisecond
	plainHTTP := answering(t, http.StatusOK, "")

	for name, c := range map[string]struct {
		endpoint endpoint
		want     Outcome
		only     string // "aws" for answers in EC2's format
	}{
		"a port that nobody listens on":   {newEndpoint(t, "http://"+boundOnly(t)), OutcomeRefused, ""},
		"a connection that is reset":      {resetting, OutcomeRefused, ""},
		"a connection that is closed":     {refusing, OutcomeRefused, ""},
		"a server that never answers":     {silence, OutcomeTimeout, ""},
		"a certificate of nobody":         {newEndpoint(t, secure.URL), OutcomeTLS, ""},
		"a server without TLS":            {newEndpoint(t, strings.Replace(plainHTTP.url, "http:", "https:", 1)), OutcomeTLS, ""},
		"a name that does not exist":      {named(t, 3, false), OutcomeDNS, ""},
		"a resolver that fails":           {named(t, 2, false), OutcomeDNS, ""},
		"a resolver that never answers":   {named(t, 0, true), OutcomeDNS, ""},
		"401":                             {answering(t, 401, ""), OutcomeAuth, ""},
		"403":                             {answering(t, 403, ""), OutcomeAuth, ""},
		"404":                             {answering(t, 404, ""), OutcomeNotFound, ""},
		"409":                             {answering(t, 409, ""), OutcomeClientError, ""},
		"429":                             {answering(t, 429, ""), OutcomeThrottled, ""},
		"500":                             {answering(t, 500, ""), OutcomeServerError, ""},
		"503":                             {answering(t, 503, ""), OutcomeServerError, ""},
		"EC2's RequestLimitExceeded":      {answering(t, 503, ec2Error("RequestLimitExceeded")), OutcomeThrottled, "aws"},
		"EC2's Throttling":                {answering(t, 400, ec2Error("Throttling")), OutcomeThrottled, "aws"},
		"EC2's InvalidInstanceID":         {answering(t, 400, ec2Error("InvalidInstanceID.NotFound")), OutcomeNotFound, "aws"},
		"EC2's UnauthorizedOperation":     {answering(t, 403, ec2Error("UnauthorizedOperation")), OutcomeAuth, "aws"},
		"EC2's AuthFailure":               {answering(t, 401, ec2Error("AuthFailure")), OutcomeAuth, "aws"},
		"EC2's RequestExpired":            {answering(t, 400, ec2Error("RequestExpired")), OutcomeAuth, "aws"},
		"EC2's InvalidParameterValue":     {answering(t, 400, ec2Error("InvalidParameterValue")), OutcomeClientError, "aws"},
		"EC2's InternalError":             {answering(t, 500, ec2Error("InternalError")), OutcomeServerError, "aws"},
		"EC2's SecurityGroupLimitReached": {answering(t, 400, ec2Error("SecurityGroupLimitExceeded")), OutcomeClientError, "aws"},
	} {
		for sdkName, request := range map[string]func(endpoint, context.Context) error{"plain": endpoint.plain, "aws": endpoint.aws} {
			if c.only != "" && c.only != sdkName {
				continue
			}
			t.Run(name+"/"+sdkName, func(t *testing.T) {
				err := request(c.endpoint, t.Context())
				lost := fmt.Errorf("wrapped as many providers do: %v", err) //nolint:errorlint // this is the point
				if got := Classify(err); got != c.want {
					t.Errorf("%v is %s, want %s", err, got, c.want)
				}
				if got := Classify(lost); got != c.want {
					t.Errorf("as text: %v is %s, want %s", lost, got, c.want)
				}
				unsent := c.want == OutcomeDNS || name == "a port that nobody listens on"
				if IsUnsent(err) != unsent || IsUnsent(lost) != unsent {
					t.Errorf("%v: nothing was sent: %v, as text: %v, want %v", err, IsUnsent(err), IsUnsent(lost), unsent)
				}
			})
		}
	}
}

func TestTheEndOfAContextIsTheCallersOrATimeout(t *testing.T) {
	silence := listening(t, func(c net.Conn) { defer c.Close(); _, _ = io.Copy(io.Discard, c) })
	for sdkName, request := range map[string]func(endpoint, context.Context) error{"plain": endpoint.plain, "aws": endpoint.aws} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		late := request(silence, ctx)
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		cancelled := request(silence, ctx)
		got := []Outcome{Classify(late), Classify(errors.New(late.Error())), Classify(cancelled), Classify(errors.New(cancelled.Error()))}
		if diff := cmp.Diff([]Outcome{OutcomeTimeout, OutcomeTimeout, OutcomeCancelled, OutcomeCancelled}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v\n%v", sdkName, diff, late, cancelled)
		}
	}
}

// The errors of SDKs that are not imported, by their shape.
type (
	googleError struct { // googleapi.Error
		Code    int
		Message string
		Errors  []googleItem
	}
	googleItem struct{ Reason string } // googleapi.ErrorItem
	azureError struct {                // azcore.ResponseError
		ErrorCode   string
		StatusCode  int
		RawResponse *http.Response
	}
	gophercloudError struct { // gophercloud.ErrUnexpectedResponseCode
		URL            string
		Actual         int
		ResponseHeader http.Header
	}
	hcloudError struct { // hcloud.Error
		Code    hcloudCode
		Message string
	}
	hcloudCode  string
	godoError   struct{ Response *http.Response } // godo.ErrorResponse
	legacyAzure struct {                          // autorest.DetailedError
		Original   error
		StatusCode any
	}
	timeoutError struct{}
)

func (e *googleError) Error() string {
	return fmt.Sprintf("googleapi: Error %d: %s", e.Code, e.Message)
}

func (e *azureError) Error() string { return "RESPONSE " + e.ErrorCode }

func (e gophercloudError) Error() string { return "unexpected" }

func (e hcloudError) Error() string { return e.Message }

func (e *godoError) Error() string { return "do" }

func (e legacyAzure) Error() string { return "azure" }

func (e timeoutError) Error() string { return "slow" }

func (e timeoutError) Timeout() bool { return true }

func TestErrorsAreJudgedByWhatTheyAre(t *testing.T) {
	response := func(code int) *http.Response { return &http.Response{StatusCode: code} }
	var noResponse *godoError
	for name, c := range map[string]struct {
		err  error
		want Outcome
	}{
		"nothing":                          {nil, OutcomeOK},
		"fenced":                           {fmt.Errorf("x: %w", election.ErrFenced), OutcomeFenced},
		"fenced, since cancelled":          {fmt.Errorf("%w: %w", election.ErrFenced, context.Canceled), OutcomeFenced},
		"a panic":                          {fmt.Errorf("x: %w: 429", ErrPanic), OutcomePanic},
		"a call that still runs":           {fmt.Errorf("x: %w", ErrStillRunning), OutcomeTimeout},
		"no instance":                      {fmt.Errorf("x: %w", cloudprovider.InstanceNotFound), OutcomeNotFound},
		"no instance, as text":             {errors.New("x: " + cloudprovider.InstanceNotFound.Error()), OutcomeNotFound},
		"no disk":                          {cloudprovider.DiskNotFound, OutcomeNotFound},
		"not implemented":                  {cloudprovider.NotImplemented, OutcomeOK},
		"implemented elsewhere":            {fmt.Errorf("x: %w", cloudprovider.ImplementedElsewhere), OutcomeOK},
		"to be asked again":                {fmt.Errorf("x: %w", api.NewRetryError("pending", time.Second)), OutcomeOK},
		"Google's rate limit":              {&googleError{403, "Quota exceeded", []googleItem{{"other"}, {"rateLimitExceeded"}}}, OutcomeThrottled},
		"Google's rate limit, as text":     {&googleError{403, "Quota exceeded, rateLimitExceeded", nil}, OutcomeThrottled},
		"Google's refusal":                 {&googleError{403, "missing permission", []googleItem{{"forbidden"}}}, OutcomeAuth},
		"Google's refusal for the Service": {&googleError{403, "no throttled", []googleItem{{"insufficientPermissions"}}}, OutcomeAuth},
		"Google's absence":                 {fmt.Errorf("x: %w", &googleError{404, "no", []googleItem{{"notFound"}}}), OutcomeNotFound},
		"Google's conflict":                {&googleError{409, "no", []googleItem{{"alreadyExists"}}}, OutcomeClientError},
		"Azure's throttling":               {&azureError{"SubscriptionRequestsThrottled", 429, nil}, OutcomeThrottled},
		"Azure's conflict that throttles":  {&azureError{"OperationNotAllowedDueToThrottling", 409, nil}, OutcomeThrottled},
		"Azure's absence":                  {&azureError{"ResourceNotFound", 404, nil}, OutcomeNotFound},
		"Azure's token":                    {&azureError{"ExpiredAuthenticationToken", 401, nil}, OutcomeAuth},
		"Azure's older SDK":                {legacyAzure{nil, 503}, OutcomeServerError},
		"Azure's older SDK without status": {legacyAzure{nil, nil}, OutcomeOther},
		"OpenStack's over limit":           {gophercloudError{"u", 413, http.Header{"Retry-After": {"5"}}}, OutcomeThrottled},
		"too large for a proxy":            {gophercloudError{"u", 413, nil}, OutcomeClientError},
		"OpenStack's conflict":             {fmt.Errorf("x: %w", gophercloudError{"u", 409, nil}), OutcomeClientError},
		"hcloud's rate limit":              {hcloudError{"rate_limit_exceeded", "limit"}, OutcomeThrottled},
		"hcloud's absence":                 {hcloudError{"not_found", "server"}, OutcomeNotFound},
		"hcloud's refusal":                 {hcloudError{"uniqueness_error", "server"}, OutcomeClientError},
		"DigitalOcean's fault":             {&godoError{response(502)}, OutcomeServerError},
		"a response that is missing":       {&godoError{}, OutcomeOther},
		"a nil pointer":                    {noResponse, OutcomeOther},
		"of two errors, the one that says": {errors.Join(errors.New("x"), statusError(429)), OutcomeThrottled},
		"something with a timeout":         {fmt.Errorf("x: %w", timeoutError{}), OutcomeTimeout},
		"something else":                   {errors.New("the moon is full"), OutcomeOther},
		"a number that is no status":       {errors.New("listener 429 has 500 rules"), OutcomeOther},
		"a lookup that is none of DNS":     {errors.New("cannot lookup the subnet"), OutcomeOther},
		"gophercloud's text":               {errors.New("Expected HTTP response code [200] when accessing [GET http://x], but got 404 instead"), OutcomeNotFound},
		"gRPC's throttling, as text":       {errors.New("rpc error: code = ResourceExhausted desc = slow down"), OutcomeThrottled},
		"gRPC's unavailability, as text":   {errors.New("rpc error: code = Unavailable desc = transport is closing"), OutcomeServerError},
		"gRPC's absence, as text":          {errors.New("rpc error: code = NotFound desc = vm"), OutcomeNotFound},
		"Linode's text":                    {errors.New("[404] Not found"), OutcomeNotFound},
		"a wait that timed out":            {errors.New("timed out waiting for the condition"), OutcomeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Classify(c.err); got != c.want {
				t.Errorf("%v is %s, want %s", c.err, got, c.want)
			}
		})
	}
}

func FuzzEveryTextHasOneOutcome(f *testing.F) {
	for _, text := range []string{
		"", "x509: unknown", "StatusCode: 429", "dial tcp: lookup a.b on 1.2.3.4:53: no such host", "RequestLimitExceeded", "got 503 instead", "(404", "\xff[5",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Classify(errors.New(text))
		if !slices.Contains(Outcomes, got) || got == OutcomeOK {
			t.Errorf("%q is %q", text, got)
		}
		if again := Classify(fmt.Errorf("calling the cloud: %w", errors.New(text))); again != got {
			t.Errorf("%q is %s, and wrapped %s", text, got, again)
		}
	})
}
