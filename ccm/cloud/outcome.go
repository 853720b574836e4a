package cloud

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
)

// answer is what the error of an SDK says that the cloud answered.
type answer struct {
	status int    // of HTTP; 0 if it is not known
	code   string // the cloud's own, "InvalidInstanceID.NotFound"
}

// answerOf looks for an answer of the cloud in an error and in everything that it wraps. SDKs share no interface. Those
// of AWS (smithy), hcloud and the lab's have methods; those of Azure, Google, gophercloud, Linode and DigitalOcean have
// fields. None is imported.
func answerOf(err error) answer {
	var a answer
	walkErrors(err, func(err error) bool {
		a.methods(err)
		if a.status == 0 {
			a.fields(err)
		}
		return a.status == 0 || a.code == ""
	})
	return a
}

// walkErrors visits an error and what it wraps, until visit has seen enough.
func walkErrors(err error, visit func(error) bool) bool {
	for err != nil {
		if !visit(err) {
			return false
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // this is the walk
			for _, one := range many.Unwrap() {
				if !walkErrors(one, visit) {
					return false
				}
			}
			return true
		}
		err = errors.Unwrap(err)
	}
	return true
}

func (a *answer) methods(err error) {
	if a.status == 0 {
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ HTTPStatusCode() int }:
			a.status = status(e.HTTPStatusCode())
		case interface{ StatusCode() int }:
			a.status = status(e.StatusCode())
		case interface{ GetStatusCode() int }:
			a.status = status(e.GetStatusCode())
		}
	}
	if a.code == "" {
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ ErrorCode() string }:
			a.code = e.ErrorCode()
		case interface{ ServiceErrorCode() string }:
			a.code = e.ServiceErrorCode()
		}
	}
}

// The names that SDKs give to fields with an HTTP status, a code, and the response.
var (
	statusFields   = []string{"StatusCode", "HTTPStatusCode", "Code", "Actual"}
	codeFields     = []string{"ErrorCode", "Code"}
	responseFields = []string{"Response", "RawResponse"}
)

// fields reads an error's exported fields. A field with the right name and another meaning is a number that is no error
// status, or text that no cloud uses. Google has its codes in a list.
func (a *answer) fields(err error) {
	v := reflect.ValueOf(err)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for _, name := range statusFields {
		if f := field(v, name); f.IsValid() && f.CanInt() && a.status == 0 {
			a.status = status(int(f.Int()))
		}
	}
	for _, name := range responseFields {
		if f := field(v, name); f.IsValid() && a.status == 0 {
			a.status = statusOf(f.Interface())
		}
	}
	a.status = throttledBy(a.status, headerIn(field(v, "ResponseHeader")))
	for _, name := range codeFields {
		if f := field(v, name); f.Kind() == reflect.String && a.code == "" && !strings.Contains(f.String(), " ") {
			a.code = f.String()
		}
	}
	a.code = cmp.Or(a.code, reasonIn(field(v, "Errors")))
}

// reasonIn is the first reason in a list of which an outcome is known, or the last.
func reasonIn(list reflect.Value) (code string) {
	if list.Kind() != reflect.Slice {
		return ""
	}
	for i := 0; i < list.Len() && ofCode(code) == ""; i++ {
		if item := reflect.Indirect(list.Index(i)); item.Kind() == reflect.Struct {
			if reason := field(item, "Reason"); reason.Kind() == reflect.String {
				code = reason.String()
			}
		}
	}
	return code
}

// field is an exported field of a struct's own, or no value.
func field(v reflect.Value, name string) reflect.Value {
	f, ok := v.Type().FieldByName(name)
	if !ok || !f.IsExported() || len(f.Index) > 1 { // an embedded pointer may be nil
		return reflect.Value{}
	}
	value := v.FieldByIndex(f.Index)
	if value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	return value
}

// statusOf is the status of a response.
func statusOf(value any) int {
	if response, ok := value.(*http.Response); ok && response != nil {
		return throttledBy(status(response.StatusCode), response.Header)
	}
	return 0
}

// throttledBy is a status, or 429 for the one by which old OpenStack throttles. It says when to come back. A request
// that is too large, as one with thousands of source ranges, has the same status and slows down no other call.
func throttledBy(status int, header http.Header) int {
	if status == http.StatusRequestEntityTooLarge && header.Get("Retry-After") != "" {
		return http.StatusTooManyRequests
	}
	return status
}

func headerIn(v reflect.Value) (header http.Header) {
	if v.IsValid() {
		header, _ = v.Interface().(http.Header)
	}
	return header
}

// status is a status that says that something went wrong, or 0.
func status(code int) int {
	if ofStatus(code) == "" {
		return 0
	}
	return code
}

// Outcome is how a call to the cloud ended. It is a label of the metrics.
type Outcome string

// The outcomes.
const (
	// also that the provider does not implement what was asked, or wants to be asked again later
	OutcomeOK          Outcome = "ok"
	OutcomeNotFound    Outcome = "not_found"          // the cloud answered that there is no such thing
	OutcomeClientError Outcome = "client_error"       // the cloud refuses this request: asking again will not help
	OutcomeServerError Outcome = "server_error"       // the cloud is at fault
	OutcomeThrottled   Outcome = "throttled"          // too many requests
	OutcomeAuth        Outcome = "auth"               // the credentials are missing, expired, or not enough
	OutcomeTimeout     Outcome = "timeout"            // no answer in time
	OutcomeDNS         Outcome = "dns"                // the cloud's name was not resolved
	OutcomeRefused     Outcome = "connection_refused" // or reset, closed before the answer, or without a route
	OutcomeTLS         Outcome = "tls"                // the certificate, or the handshake
	OutcomeCancelled   Outcome = "cancelled"          // by the caller
	OutcomeFenced      Outcome = "fenced"             // not made, since the lease is not certainly held
	OutcomePanic       Outcome = "panic"              // of the provider
	OutcomeOther       Outcome = "other"
)

// Outcomes are all of them.
var Outcomes = []Outcome{
	OutcomeOK,
	OutcomeNotFound,
	OutcomeClientError,
	OutcomeServerError,
	OutcomeThrottled,
	OutcomeAuth,
	OutcomeTimeout,
	OutcomeDNS,
	OutcomeRefused,
	OutcomeTLS,
	OutcomeCancelled,
	OutcomeFenced,
	OutcomePanic,
	OutcomeOther,
}

// hasReachedCloud reports whether the cloud took the request and dealt with it, whatever it answered.
func (o Outcome) hasReachedCloud() bool {
	switch o {
	case OutcomeOK, OutcomeNotFound, OutcomeClientError:
		return true
	default:
		return false
	}
}

// Classify judges the error of a call to a cloud. The most certain source goes first: what the guard itself says, what
// the cloud answered, how the connection failed, how the context ended. For providers that lose all of that with a %v,
// the text is read. A user may have written it, so that it must not decide about the calls of others.
func Classify(err error) Outcome { return inputs(nil).classify(err) }

// classify is Classify for the error of a call with these inputs: none of them is taken for the cloud's words.
func (in inputs) classify(err error) (outcome Outcome) {
	if err == nil {
		return OutcomeOK
	}
	defer func() {
		if recover() != nil { // an error whose methods panic, as those of a nil pointer do
			outcome = OutcomeOther
		}
	}()
	for _, judge := range []func(error) Outcome{own, protocol, in.classifyAnswer, connection, interrupted, in.text} {
		if outcome := judge(err); outcome != "" {
			return outcome
		}
	}
	return OutcomeOther
}

// own are the errors of the guard and of the fence.
func own(err error) Outcome {
	switch {
	case errors.Is(err, election.ErrFenced):
		return OutcomeFenced
	case errors.Is(err, ErrPanic):
		return OutcomePanic
	case errors.Is(err, ErrStillRunning):
		return OutcomeTimeout
	}
	return ""
}

// protocol are the errors by which providers talk with controllers. They say nothing bad about the cloud.
func protocol(err error) Outcome {
	var retry *api.RetryError
	switch {
	case errors.Is(err, cloudprovider.InstanceNotFound), errors.Is(err, cloudprovider.DiskNotFound):
		return OutcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented),
		errors.Is(err, cloudprovider.ImplementedElsewhere),
		errors.As(err, &retry):
		return OutcomeOK
	}
	return ""
}

// classifyAnswer is what the cloud said: by its code, which tells throttling from other refusals with the same status,
// or by the status.
func (in inputs) classifyAnswer(err error) Outcome {
	answer := answerOf(err)
	if outcome := ofCode(answer.code); outcome != "" {
		return outcome
	}
	if outcome := ofStatus(answer.status); outcome != "" {
		if outcome == OutcomeAuth && answer.code == "" && in.isThrottledText(strings.ToLower(err.Error())) {
			return OutcomeThrottled // Google throttles with 403, and its reason may be lost
		}
		return outcome
	}
	if answer.code != "" {
		return OutcomeClientError
	}
	return ""
}

// ofStatus is what an HTTP status says; nothing for one that is none.
func ofStatus(status int) Outcome {
	switch {
	case status < 400 || status > 599:
		return ""
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		return OutcomeAuth
	case status == http.StatusNotFound || status == http.StatusGone:
		return OutcomeNotFound
	case status == http.StatusRequestTimeout:
		return OutcomeTimeout
	case status == http.StatusTooManyRequests:
		return OutcomeThrottled
	case status >= 500:
		return OutcomeServerError
	}
	return OutcomeClientError
}

// connection is how a connection failed.
func connection(err error) Outcome {
	var (
		dns       *net.DNSError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns):
		return OutcomeDNS
	case errors.As(err, &verify),
		errors.As(err, &record),
		errors.As(err, &alert),
		errors.As(err, &authority),
		errors.As(err, &hostname),
		errors.As(err, &invalid):
		return OutcomeTLS
	}
	for _, errno := range []syscall.Errno{
		syscall.ECONNREFUSED,
		syscall.ECONNRESET,
		syscall.ECONNABORTED,
		syscall.EPIPE,
		syscall.EHOSTUNREACH,
		syscall.ENETUNREACH,
		syscall.ENETDOWN,
	} {
		if errors.Is(err, errno) {
			return OutcomeRefused
		}
	}
	return ""
}

// IsUnsent reports whether an error says that nothing was sent to the cloud: its name was not resolved, or it refused
// the connection. A connection that ended later may have carried a request that the cloud has executed.
func IsUnsent(err error) bool {
	switch Classify(err) {
	case OutcomeDNS:
		return true
	case OutcomeRefused:
		return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(strings.ToLower(err.Error()), "connection refused")
	default:
		return false
	}
}

// interrupted is that the answer was not waited for to the end, or the connection ended before it.
func interrupted(err error) Outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return OutcomeCancelled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return OutcomeTimeout
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return OutcomeRefused
	}
	return ""
}

// text is the last resort.
func (in inputs) text(err error) Outcome { return in.ofText(strings.ToLower(err.Error())) }

// The codes by which clouds say what a status does not, in lower case and without what stands between their words.
var codes = map[string]Outcome{
	// AWS, as its SDK's own retryer knows them; Azure, OpenStack, hcloud and Google have some of them, too.
	"throttling":                             OutcomeThrottled,
	"throttlingexception":                    OutcomeThrottled,
	"throttledexception":                     OutcomeThrottled,
	"throttled":                              OutcomeThrottled,
	"requestthrottled":                       OutcomeThrottled,
	"requestthrottledexception":              OutcomeThrottled,
	"toomanyrequests":                        OutcomeThrottled,
	"toomanyrequestsexception":               OutcomeThrottled,
	"requestlimitexceeded":                   OutcomeThrottled,
	"bandwidthlimitexceeded":                 OutcomeThrottled,
	"limitexceededexception":                 OutcomeThrottled,
	"provisionedthroughputexceededexception": OutcomeThrottled,
	"slowdown":                               OutcomeThrottled,
	"priorrequestnotcomplete":                OutcomeThrottled,
	"transactioninprogressexception":         OutcomeThrottled,
	"ec2throttledexception":                  OutcomeThrottled,
	"subscriptionrequeststhrottled":          OutcomeThrottled,
	"operationnotallowedduetothrottling":     OutcomeThrottled,
	"ratelimitexceeded":                      OutcomeThrottled,
	"userratelimitexceeded":                  OutcomeThrottled,
	"resourceexhausted":                      OutcomeThrottled,
	"overlimit":                              OutcomeThrottled,

	"authfailure":                 OutcomeAuth,
	"unauthorizedoperation":       OutcomeAuth,
	"accessdenied":                OutcomeAuth,
	"accessdeniedexception":       OutcomeAuth,
	"unauthorized":                OutcomeAuth,
	"unauthenticated":             OutcomeAuth,
	"permissiondenied":            OutcomeAuth,
	"forbidden":                   OutcomeAuth,
	"expiredtoken":                OutcomeAuth,
	"expiredtokenexception":       OutcomeAuth,
	"invalidclienttokenid":        OutcomeAuth,
	"invalidaccesskeyid":          OutcomeAuth,
	"unrecognizedclientexception": OutcomeAuth,
	"signaturedoesnotmatch":       OutcomeAuth,
	"incompletesignature":         OutcomeAuth,
	"missingauthenticationtoken":  OutcomeAuth,
	"requestexpired":              OutcomeAuth,
	"optinrequired":               OutcomeAuth,
	"authorizationfailed":         OutcomeAuth,
	"invalidauthenticationtoken":  OutcomeAuth,
	"expiredauthenticationtoken":  OutcomeAuth,
	"tokenonlyreadonly":           OutcomeAuth,

	"internalerror":               OutcomeServerError,
	"internalfailure":             OutcomeServerError,
	"serviceunavailable":          OutcomeServerError,
	"unavailable":                 OutcomeServerError,
	"internalservererror":         OutcomeServerError,
	"serviceunavailableexception": OutcomeServerError,
	"servererror":                 OutcomeServerError,
	"serviceerror":                OutcomeServerError,

	"requesttimeout":          OutcomeTimeout,
	"requesttimeoutexception": OutcomeTimeout,
	"deadlineexceeded":        OutcomeTimeout,
}

var betweenWords = strings.NewReplacer("_", "", "-", "", " ", "")

// ofCode is what a cloud's own code says; nothing for one that only says that the request was refused.
func ofCode(code string) Outcome {
	folded := betweenWords.Replace(strings.ToLower(code))
	if outcome, ok := codes[folded]; ok {
		return outcome
	}
	// InvalidInstanceID.NotFound, LoadBalancerNotFound, TargetGroupNotFoundException, ResourceNotFound
	if strings.HasSuffix(strings.TrimSuffix(folded, "exception"), "notfound") {
		return OutcomeNotFound
	}
	return ""
}

// textPatterns are texts by which an outcome is known, in lower case. The first that is found decides: what names a
// cause goes before what names its effect.
var textPatterns = []struct {
	words   []string
	outcome Outcome
}{
	{[]string{"no such host", "server misbehaving", "name resolution"}, OutcomeDNS},
	{
		[]string{
			"x509:",
			"tls:",
			"certificate signed by",
			"certificate is not valid",
			"handshake failure",
			"server gave http response to https",
		},
		OutcomeTLS,
	},
	{
		[]string{
			"connection refused",
			"connection reset",
			"closed network connection",
			"broken pipe",
			"no route to host",
			"network is unreachable",
			"unexpected eof",
			"server closed idle connection",
		},
		OutcomeRefused,
	},
	{
		[]string{
			"unauthorizedoperation",
			"authfailure",
			"accessdenied",
			"access denied",
			"expiredtoken",
			"invalidclienttokenid",
			"unauthenticated",
			"permissiondenied",
			"authentication failed",
			"authenticationrequired",
			"unauthorized",
			"not authorized",
			"forbidden",
		},
		OutcomeAuth,
	},
	{[]string{"instance not found", "code = notfound"}, OutcomeNotFound}, // cloudprovider.InstanceNotFound, and gRPC
	{[]string{"context canceled", "request canceled by"}, OutcomeCancelled},
	{
		[]string{
			"deadline exceeded",
			"deadlineexceeded",
			"i/o timeout",
			"timed out",
			"timeout awaiting",
			"handshake timeout",
			"gateway timeout",
			"client.timeout",
		},
		OutcomeTimeout,
	},
	{
		[]string{
			"service unavailable",
			"internal server error",
			"bad gateway",
			"internalerror",
			"internalfailure",
			"code = unavailable",
		},
		OutcomeServerError,
	},
}

var throttledWords = []string{
	"requestlimitexceeded",
	"throttling",
	"throttled",
	"toomanyrequests",
	"too many requests",
	"rate exceeded",
	"ratelimitexceeded",
	"rate limit exceeded",
	"rate_limit_exceeded",
	"resourceexhausted",
	"slowdown",
	"retry limit quota",
}

// statusInText finds an HTTP status where SDKs write one: "StatusCode: 429", "status code 503", "error 403", "got 404
// instead", "HTTP 500", "[404] ...", "(429 Too ...)".
var statusInText = regexp.MustCompile(
	`(?:status ?code[:=]? ?"?|status[:=]? ?|error[:=]? ?|http(?:/[0-9.]+)? |got |code[:=]? ?|\(|\[)([45][0-9]{2})\b`,
)

// maxStatuses bounds how many of a text are looked at: a user may have written thousands.
const maxStatuses = 10

// codeInText finds the code in the text of AWS: "api error InvalidInstanceID.NotFound: ...".
var codeInText = regexp.MustCompile(`\bapi error ([a-z0-9._]+):`)

// lookup finds that a name was not resolved, for whatever reason: "dial tcp: lookup ec2.example.com on 10.0.0.2:53: i/o
// timeout".
var lookup = regexp.MustCompile(`\blookup [^ :]+(?: on [^ ]+)?: `)

// ofText judges a text in lower case.
func (in inputs) ofText(text string) Outcome {
	if in.isThrottledText(text) { // before the status: a throttled request has any of four
		return OutcomeThrottled
	}
	if found := codeInText.FindStringSubmatch(text); found != nil && !in.mayBring(found[1]) {
		if outcome := ofCode(found[1]); outcome != "" {
			return outcome
		}
	}
	for _, found := range statusInText.FindAllStringSubmatch(text, maxStatuses) {
		if status, err := strconv.Atoi(found[1]); err == nil && !in.mayBringStatus(found[0], found[1]) {
			return ofStatus(status)
		}
	}
	if lookup.MatchString(text) {
		return OutcomeDNS
	}
	for _, s := range textPatterns {
		if in.hasAnyPhrase(text, s.words) {
			return s.outcome
		}
	}
	if text == "eof" || strings.HasSuffix(text, ": eof") {
		return OutcomeRefused
	}
	return ""
}
