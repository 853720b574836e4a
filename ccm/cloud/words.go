package cloud

import (
	"regexp"
	"strings"
)

// The codes by which clouds say what a status does not, in lower case and without what stands between their words.
var codes = map[string]Outcome{
	// AWS, as its SDK's own retryer knows them; Azure, OpenStack, hcloud and Google have some of them, too.
	"throttling": OutcomeThrottled, "throttlingexception": OutcomeThrottled, "throttledexception": OutcomeThrottled, "throttled": OutcomeThrottled,
	"requestthrottled": OutcomeThrottled, "requestthrottledexception": OutcomeThrottled, "toomanyrequests": OutcomeThrottled,
	"toomanyrequestsexception": OutcomeThrottled, "requestlimitexceeded": OutcomeThrottled, "bandwidthlimitexceeded": OutcomeThrottled,
	"limitexceededexception": OutcomeThrottled, "provisionedthroughputexceededexception": OutcomeThrottled, "slowdown": OutcomeThrottled,
	"priorrequestnotcomplete": OutcomeThrottled, "transactioninprogressexception": OutcomeThrottled, "ec2throttledexception": OutcomeThrottled,
	"subscriptionrequeststhrottled": OutcomeThrottled, "operationnotallowedduetothrottling": OutcomeThrottled, "ratelimitexceeded": OutcomeThrottled,
	"userratelimitexceeded": OutcomeThrottled, "resourceexhausted": OutcomeThrottled, "overlimit": OutcomeThrottled,

	"authfailure": OutcomeAuth, "unauthorizedoperation": OutcomeAuth, "accessdenied": OutcomeAuth, "accessdeniedexception": OutcomeAuth,
	"unauthorized": OutcomeAuth, "unauthenticated": OutcomeAuth, "permissiondenied": OutcomeAuth, "forbidden": OutcomeAuth,
	"expiredtoken": OutcomeAuth, "expiredtokenexception": OutcomeAuth, "invalidclienttokenid": OutcomeAuth, "invalidaccesskeyid": OutcomeAuth,
	"unrecognizedclientexception": OutcomeAuth, "signaturedoesnotmatch": OutcomeAuth, "incompletesignature": OutcomeAuth,
	"missingauthenticationtoken": OutcomeAuth, "requestexpired": OutcomeAuth, "optinrequired": OutcomeAuth, "authorizationfailed": OutcomeAuth,
	"invalidauthenticationtoken": OutcomeAuth, "expiredauthenticationtoken": OutcomeAuth, "tokenonlyreadonly": OutcomeAuth,

	"internalerror": OutcomeServerError, "internalfailure": OutcomeServerError, "serviceunavailable": OutcomeServerError, "unavailable": OutcomeServerError,
	"internalservererror": OutcomeServerError, "serviceunavailableexception": OutcomeServerError, "servererror": OutcomeServerError,
	"serviceerror": OutcomeServerError,

	"requesttimeout": OutcomeTimeout, "requesttimeoutexception": OutcomeTimeout, "deadlineexceeded": OutcomeTimeout,
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

// said are texts by which an outcome is known, in lower case. The first that is found decides: what names a cause goes before what names its effect.
var said = []struct {
	words   []string
	outcome Outcome
}{
	{[]string{"no such host", "server misbehaving", "name resolution"}, OutcomeDNS},
	{[]string{"x509:", "tls:", "certificate signed by", "certificate is not valid", "handshake failure", "server gave http response to https"}, OutcomeTLS},
	{[]string{
		"connection refused", "connection reset", "closed network connection", "broken pipe", "no route to host", "network is unreachable", "unexpected eof",
		"server closed idle connection",
	}, OutcomeRefused},
	{[]string{
		"unauthorizedoperation", "authfailure", "accessdenied", "access denied", "expiredtoken", "invalidclienttokenid", "unauthenticated", "permissiondenied",
		"authentication failed", "authenticationrequired", "unauthorized", "not authorized", "forbidden",
	}, OutcomeAuth},
	{[]string{"instance not found", "code = notfound"}, OutcomeNotFound}, // cloudprovider.InstanceNotFound, and gRPC
	{[]string{"context canceled", "request canceled by"}, OutcomeCancelled},
	{[]string{
		"deadline exceeded", "deadlineexceeded", "i/o timeout", "timed out", "timeout awaiting", "handshake timeout", "gateway timeout", "client.timeout",
	}, OutcomeTimeout},
	{[]string{"service unavailable", "internal server error", "bad gateway", "internalerror", "internalfailure", "code = unavailable"}, OutcomeServerError},
}

var throttledWords = []string{
	"requestlimitexceeded", "throttling", "throttled", "toomanyrequests", "too many requests", "rate exceeded", "ratelimitexceeded", "rate limit exceeded",
	"rate_limit_exceeded", "resourceexhausted", "slowdown", "retry limit quota",
}

func throttledText(text string) bool { return containsAny(strings.ToLower(text), throttledWords) }

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// statusInText finds an HTTP status where SDKs write one: "StatusCode: 429", "status code 503", "error 403", "got 404 instead", "HTTP 500", "[404] ...",
// "(429 Too ...)".
var statusInText = regexp.MustCompile(`(?:status ?code[:=]? ?"?|status[:=]? ?|error[:=]? ?|http(?:/[0-9.]+)? |got |code[:=]? ?|\(|\[)([45][0-9]{2})\b`)

// codeInText finds the code in the text of AWS: "api error InvalidInstanceID.NotFound: ...".
var codeInText = regexp.MustCompile(`\bapi error ([a-z0-9._]+):`)

// lookup finds that a name was not resolved, for whatever reason: "dial tcp: lookup ec2.example.com on 10.0.0.2:53: i/o timeout".
var lookup = regexp.MustCompile(`\blookup [^ :]+(?: on [^ ]+)?: `)

// ofText judges a text in lower case.
func ofText(text string) Outcome {
	if containsAny(text, throttledWords) { // before the status: a throttled request has any of four
		return OutcomeThrottled
	}
	if found := codeInText.FindStringSubmatch(text); found != nil {
		if outcome := ofCode(found[1]); outcome != "" {
			return outcome
		}
	}
	if found := statusInText.FindStringSubmatch(text); found != nil {
		digits := found[1]
		if outcome := ofStatus(100*int(digits[0]-'0') + 10*int(digits[1]-'0') + int(digits[2]-'0')); outcome != "" {
			return outcome
		}
	}
	if lookup.MatchString(text) {
		return OutcomeDNS
	}
	for _, s := range said {
		if containsAny(text, s.words) {
			return s.outcome
		}
	}
	if text == "eof" || strings.HasSuffix(text, ": eof") {
		return OutcomeRefused
	}
	return ""
}
