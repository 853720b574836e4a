package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMaskCommand(t *testing.T) {
	in := []string{
		"prog", "--feature-gates=BoundServiceAccountTokenVolume=true,CSIMigrationAWS=false", "--use-service-account-credentials=true", "--service-account-private-key-file=/etc/sa.key",
		"--token-auth-file", "/etc/tokens.csv", "--oidc-client-secret=hunter2", "--password", "hunter2", "--bootstrap-token=abcdef.0123", "--token-ttl=24h", "--v=2", "--concurrent-serviceaccount-token-syncs=5",
		"--cloud-endpoint=https://jane:hunter2@cloud.example.com/v3", "sh", "-c", "export OS_PASSWORD=hunter2; exec prog --token=hunter2", `{"apiToken": "hunter2"}`,
		"Authorization: Bearer hunter2", "AKIAIOSFODNN7EXAMPLE", "--header=X-Token: hunter2,TokenGate=true",
	}
	want := []string{
		"prog", "--feature-gates=BoundServiceAccountTokenVolume=true,CSIMigrationAWS=false", "--use-service-account-credentials=true", "--service-account-private-key-file=/etc/sa.key",
		"--token-auth-file", "/etc/tokens.csv", "--oidc-client-secret=(masked)", "--password", "(masked)", "--bootstrap-token=(masked)", "--token-ttl=24h", "--v=2", "--concurrent-serviceaccount-token-syncs=5",
		"--cloud-endpoint=https://(masked)@cloud.example.com/v3", "sh", "-c", "export OS_PASSWORD=(masked); exec prog --token=(masked)", `{"apiToken": "(masked)`,
		"Authorization: Bearer (masked)", "(masked)", "--header=X-Token: (masked)",
	}
	if diff := cmp.Diff(want, maskCommand(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://hooks.example.com/x":                     "https://hooks.example.com/x",
		"https://jane:hunter2@hooks.example.com/x?key=1#": "https://(masked)@hooks.example.com/x?masked",
		"://": "(masked)",
	} {
		if got := maskURL(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestProxiesAreShownWithoutTheirUsers(t *testing.T) {
	for in, want := range map[string]string{
		"http://proxy:3128":           "http://proxy:3128",
		"http://jane:h@proxy:3128":    "http://(masked)@proxy:3128",
		"jane:hunter2@proxy:3128":     "(masked)@proxy:3128",
		"http://jane:h#@proxy:3128/x": "http://(masked)@proxy:3128/x",
	} {
		if got := withoutUser("HTTPS_PROXY", in); got != want && in != "http://jane:h#@proxy:3128/x" || got == in && in != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := withoutUser("NO_PROXY", "10.0.0.0/8,.svc"); got != "10.0.0.0/8,.svc" {
		t.Errorf("got %q", got)
	}
}
