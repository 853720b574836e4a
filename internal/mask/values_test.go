package mask

import (
	"errors"
	"strings"
	"testing"
)

// TestNoCharacterOfASecretEndsIt has SW0RDFISH, or a part of it, behind what looks like the end of a value.
func TestNoCharacterOfASecretEndsIt(t *testing.T) {
	for attack, text := range map[string]string{
		"a quote, as %q writes it":                `password: "xk\"SW0RDFISH"`,
		"a quote in JSON":                         `{"password":"xk\"SW0RDFISH"}`,
		"a quote in JSON within JSON":             `{"config":"{\"password\":\"xk\\\"SW0RDFISH\"}"}`,
		"a quote in JSON three levels deep":       `"{\"a\":\"{\\\"password\\\":\\\"xk\\\\\\\"SW0RDFISH\\\"}\"}"`,
		"a quote in YAML, where it is doubled":    `password='xk''SW0RDFISH'`,
		"quoted pieces behind each other":         `password="xk"'SW0RDFISH'`,
		"a quote within a word":                   `password=xk"SW0RDFISH`,
		"& as between the parameters of a query":  `password=xk&SW0RDFISH`,
		"; as behind a command of a shell":        `password=xk;SW0RDFISH`,
		"} as behind a value in JSON":             `password=xk}SW0RDFISH`,
		") as behind a value in a sentence":       `password=xk)SW0RDFISH`,
		"] as behind a value in a list":           `password=xk]SW0RDFISH`,
		"$ as before a variable":                  `password=$SW0RDFISH`,
		", as before the next value":              `password=,SW0RDFISH`,
		"{ as before an object":                   `password={SW0RDFISH`,
		"[ as before a list":                      `password=[xk SW0RDFISH`,
		"@ in the password of a URL":              `dial https://user:p@SW0RDFISH@proxy.example:3128: refused`,
		"/ in the password of a URL":              `dial https://user:xk/SW0RDFISH@proxy.example:3128: refused`,
		"/ before a password without a user":      `dial redis://:/SW0RDFISH@proxy.example:3128: refused`,
		"/ and @ in the password of a URL":        `dial https://user:xk/y@z/SW0RDFISH@proxy.example:3128: refused`,
		"several passwords in a list":             `{"password":["xk","SW0RDFISH"]}`,
		"a list within a list":                    `{"password":[["xk"],["]SW0RDFISH"]]}`,
		"several lines in YAML":                   "password: |\n  xk\n\n  SW0RDFISH\n",
		"several lines in YAML, folded and short": "  password: >-\n    SW0RDFISH",
		"several lines in YAML, as %q writes it":  `"password: |\n  xk\n  SW0RDFISH\n"`,
	} {
		if got := Error(errors.New(text)); strings.Contains(got, "RDFISH") {
			t.Errorf("%s: %s\n  is shown as %s", attack, text, got)
		}
	}
}

func TestSecretsThatAreNamedByAnotherField(t *testing.T) {
	for text, want := range map[string]string{
		`env[0]: Invalid value: {"name":"OS_PASSWORD","value":"SW0RDFISH"}`:             `env[0]: Invalid value: {"name":"OS_PASSWORD","value":"(masked)"}`,
		`env[0]: Invalid value: {\"name\":\"OS_PASSWORD\",\"value\":\"SW0\\\"RDFISH\"}`: `env[0]: Invalid value: {\"name\":\"OS_PASSWORD\",\"value\":\"(masked)\"}`,
		`Invalid value: v1.EnvVar{Name:"OS_PASSWORD", Value:"SW0RDFISH"}`:               `Invalid value: v1.EnvVar{Name:"OS_PASSWORD", Value:"(masked)"}`,
		"[{name: OS_PASSWORD, value: SW0RDFISH}, {name: REGION, value: here}]":          "[{name: OS_PASSWORD, value: (masked)}, {name: REGION, value: here}]",
		"- name: OS_PASSWORD\n  value: SW0RDFISH\n- name: REGION\n  value: here":        "- name: OS_PASSWORD\n  value: (masked)\n- name: REGION\n  value: here",
		`{"name":"OS_PASSWORD","value":""}`:                                             `{"name":"OS_PASSWORD","value":""}`,
		`{"name":"OS_PASSWORD","value":"$(OS_PASSWORD)"}`:                               `{"name":"OS_PASSWORD","value":"$(OS_PASSWORD)"}`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%s\n  is shown as %s\n  want %s", text, got, want)
		}
	}
}

func TestSignaturesOfAddresses(t *testing.T) {
	const signature = "5w0rdf15h5w0rdf15h5w0rdf15h5w0rdf15h"
	for before, after := range map[string]string{
		`Get "https://b.s3.amazonaws.com/x?X-Amz-Expires=3600&X-Amz-Signature=`:         `": EOF`,
		`Get "https://b.s3.amazonaws.com/x?X-Amz-Signature=`:                            `&X-Amz-Expires=3600": EOF`,
		`Get "https://storage.googleapis.com/x?X-Goog-Signature=`:                       `": EOF`,
		`Get "https://d1.cloudfront.net/x?Expires=1&Signature=`:                         `&Key-Pair-Id=K1": EOF`,
		`{"url":"https://b.s3.amazonaws.com/x?X-Amz-Expires=3600\u0026X-Amz-Signature=`: `"}`,
	} {
		if got := Text(before + signature + after); got != before+Masked+after {
			t.Errorf("%s\n  is shown as %s", before+signature+after, got)
		}
	}
}

// TestWhatIsNearASecretStays has values whose end is known, and fields under a name that is a secret's.
func TestWhatIsNearASecretStays(t *testing.T) {
	const sum = "sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"
	for text, want := range map[string]string{
		"token=x1y2z3&zone=a":                          "token=(masked)&zone=a",
		"AccountKey=x1y2z3==;EndpointSuffix=core":      "AccountKey=(masked);EndpointSuffix=core",
		"(token=x1y2z3) of node ip-10-0-0-21":          "(token=(masked)) of node ip-10-0-0-21",
		`{"token":"x1y2z3","image":"ccm@` + sum + `"}`: `{"token":"(masked)","image":"ccm@` + sum + `"}`,
		`{"tokens":["a1","b2"],"node":"ip-10-0-0-21"}`: `{"tokens":(masked),"node":"ip-10-0-0-21"}`,
		`password: "x1y2z3", node: ip-10-0-0-21`:       `password: "(masked)", node: ip-10-0-0-21`,
		"password: |\n  x1y2z3\nnode: ip-10-0-0-21":    "password: |\n  (masked)\nnode: ip-10-0-0-21",
		"tokenURL=https://x.example.com/t?sig=x1y2z3":  "tokenURL=https://x.example.com/t?sig=(masked)",
		`Get "https://u:x1/y2@h.example.com/t": EOF`:   `Get "https://(masked)@h.example.com/t": EOF`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%s\n  is shown as %s\n  want %s", text, got, want)
		}
	}
	for _, same := range []string{
		`{"imagePullSecrets":[{"name":"registry"}],"image":"ccm@` + sum + `"}`,
		`{"volumes":[{"secret":{"secretName":"cloud","items":[{"key":"aws","path":"config"}]}}]}`,
		"Volume{VolumeSource{Secret:&SecretVolumeSource{SecretName:cloud,Optional:nil,},},}",
		`reading the token: [Get "https://10.0.0.1:6443/api": EOF, dial tcp 10.0.0.2:6443: connect: connection refused]`,
		"role arn:aws:iam::123456789012:role/ccm may not read the token",
		"image registry.example.com/ccm:v1.30.2@" + sum + " is pulled with the secret registry",
		"name: ip-10-0-0-21, value: eu-central-1a",
		`Get "https://10.0.0.1:6443/api/v1": EOF; write to admin@example.com`,
		"https://registry.example.com/ccm@" + sum,
	} {
		if got := Text(same); got != same {
			t.Errorf("%s\n  became %s", same, got)
		}
	}
}
