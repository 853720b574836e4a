package awssim_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv1v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsv1 "github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	credentialsv1 "github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	ec2v1 "github.com/aws/aws-sdk-go/service/ec2"
	elbv1v1 "github.com/aws/aws-sdk-go/service/elb"
	elbv2v1 "github.com/aws/aws-sdk-go/service/elbv2"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"go.uber.org/goleak"

	"github.com/transplant-dev/transplant/lab/awssim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulation is a server on a loopback address.
type simulation struct {
	*awssim.Server
	http *httptest.Server
}

// endpoint is where clients go, and with which transport.
type endpoint interface {
	url() string
	transport() *http.Client
}

func (s *simulation) url() string             { return s.http.URL }
func (s *simulation) transport() *http.Client { return s.http.Client() }

// start serves an account until the test ends.
func start(t *testing.T, o awssim.Options) *simulation {
	t.Helper()
	server, err := awssim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{Server: server, http: httptest.NewServer(server)}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		s.http.Close()
	})
	return s
}

// versions tell the APIs apart.
var versions = map[string]string{"ec2": "2016-11-15", "elb": "2012-06-01", "elbv2": "2015-12-01"}

// reply is the answer to a raw call.
type reply struct {
	status     int
	code, body string
}

var errorCode = regexp.MustCompile(`<Code>([^<]*)</Code>`)

// post makes a call without an SDK.
func (s *simulation) post(t *testing.T, key, version, action string, params map[string]string) reply {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {version}}
	for k, v := range params {
		form.Set(k, v)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+"/", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key+"/20261121/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=00")
	answer, err := s.transport().Do(r)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := reply{status: answer.StatusCode, body: string(body)}
	if m := errorCode.FindStringSubmatch(out.body); m != nil {
		out.code = m[1]
	}
	return out
}

// client makes calls through an SDK: the input and the output as JSON values, the API's error code, and the error itself.
type client interface {
	call(service, action, in string) (out any, code string, err error)
}

// methods are an SDK's clients by service. The operations are found by name, so that one script drives both SDKs: their inputs and outputs
// differ in Go types, but the members have the same names.
type methods struct {
	byService map[string]any
	// before are the arguments before the input.
	before []reflect.Value
	code   func(error) string
}

func (m methods) call(service, action, in string) (any, string, error) {
	method := reflect.ValueOf(m.byService[service]).MethodByName(action)
	if !method.IsValid() {
		return nil, "", errors.New("the SDK has no operation " + action)
	}
	input := reflect.New(method.Type().In(len(m.before)).Elem())
	decoder := json.NewDecoder(strings.NewReader(in))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(input.Interface()); err != nil {
		return nil, "", err
	}
	result := method.Call(append(append([]reflect.Value{}, m.before...), input))
	if err, failed := result[1].Interface().(error); failed {
		return nil, m.code(err), err
	}
	text, err := json.Marshal(result[0].Interface())
	if err != nil {
		return nil, "", err
	}
	var out any
	return out, "", decodeNumbers(text, &out)
}

func decodeNumbers(text []byte, into *any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// testKey is the access key id of the scripts.
const testKey = "AKIALABTEST"

func newV1(t *testing.T, at endpoint) client { return v1With(t, at, testKey) }
func newV2(t *testing.T, at endpoint) client { return v2With(t, at, testKey) }

// v1With is the SDK of the in-tree provider. Its own validation is off: the simulator's is what is tested.
func v1With(t *testing.T, at endpoint, key string) client {
	t.Helper()
	s, err := session.NewSession(&awsv1.Config{
		Region: awsv1.String("us-east-1"), Endpoint: awsv1.String(at.url()), HTTPClient: at.transport(), MaxRetries: awsv1.Int(0),
		DisableParamValidation: awsv1.Bool(true), Credentials: credentialsv1.NewStaticCredentials(key, "secret", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	return methods{
		byService: map[string]any{"ec2": ec2v1.New(s), "elb": elbv1v1.New(s), "elbv2": elbv2v1.New(s)},
		code: func(err error) string {
			var e awserr.Error
			if errors.As(err, &e) {
				return e.Code()
			}
			return ""
		},
	}
}

// v2With is the SDK of the external provider.
func v2With(t *testing.T, at endpoint, key string) client {
	t.Helper()
	unchecked := []func(*middleware.Stack) error{func(stack *middleware.Stack) error {
		_, _ = stack.Initialize.Remove("OperationInputValidation") // Absent from operations without required members.
		return nil
	}}
	url, creds := aws.String(at.url()), credentials.NewStaticCredentialsProvider(key, "secret", "")
	return methods{
		byService: map[string]any{
			"ec2": ec2v2.New(
				ec2v2.Options{Region: "us-east-1", BaseEndpoint: url, HTTPClient: at.transport(), Credentials: creds, Retryer: aws.NopRetryer{}, APIOptions: unchecked},
			),
			"elb": elbv1v2.New(
				elbv1v2.Options{Region: "us-east-1", BaseEndpoint: url, HTTPClient: at.transport(), Credentials: creds, Retryer: aws.NopRetryer{}, APIOptions: unchecked},
			),
			"elbv2": elbv2v2.New(
				elbv2v2.Options{Region: "us-east-1", BaseEndpoint: url, HTTPClient: at.transport(), Credentials: creds, Retryer: aws.NopRetryer{}, APIOptions: unchecked},
			),
		},
		before: []reflect.Value{reflect.ValueOf(t.Context())},
		code: func(err error) string {
			var e smithy.APIError
			if errors.As(err, &e) {
				return e.ErrorCode()
			}
			return ""
		},
	}
}

// lookup finds a value by its path; # is a list's length. What is not there is "".
func lookup(v any, path string) string {
	for _, part := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			if part == "#" {
				return strconv.Itoa(len(x))
			}
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return ""
			}
			v = x[i]
		default:
			if part == "#" {
				return "0"
			}
			return ""
		}
	}
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	default:
		text, _ := json.Marshal(x)
		return string(text)
	}
}
