package gcr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// metadataServer answers the token's path with a text.
func metadataServer(t *testing.T, status int, text string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" {
			t.Errorf("%s is asked for, with the flavor %q", r.URL.Path, r.Header.Get("Metadata-Flavor"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(s.URL, "http://"))
}

func ask(t *testing.T, image string, arguments ...string) (response credentialv1.CredentialProviderResponse, said string, err error) {
	t.Helper()
	request, err := json.Marshal(map[string]string{
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderRequest", "image": image,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	err = Run(t.Context(), Process{Version: "v1", Arguments: arguments, In: bytes.NewReader(request), Out: &out, Log: &log})
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &response)
	} else if out.Len() > 0 {
		t.Errorf("it failed, and answered %s", out.String())
	}
	return response, log.String(), err
}

func TestATokenOfTheInstanceIsForItsRegistryAlone(t *testing.T) {
	metadataServer(t, http.StatusOK, `{"access_token":"planted","expires_in":3600,"token_type":"Bearer"}`)
	for image, host := range map[string]string{
		"gcr.io/project/app:v1": "gcr.io", "eu.gcr.io/p/a@sha256:00": "eu.gcr.io", "europe-west4-docker.pkg.dev/p/r/a": "europe-west4-docker.pkg.dev",
		"EU.GCR.IO/p/a": "EU.GCR.IO", "container.cloud.google.com/p/a": "container.cloud.google.com",
	} {
		response, said, err := ask(t, image, "get-credentials")
		want := credentialv1.AuthConfig{Username: "_token", Password: "planted"}
		if err != nil || len(response.Auth) != 1 || response.Auth[host] != want || response.CacheDuration.Duration != 58*time.Minute {
			t.Errorf("%s: %+v, %v: %s", image, response, err, said)
		}
	}
	for _, image := range []string{
		"docker.io/a/b", "app", "gcr.io", "gcr.io:443/a", "x.y.gcr.io/a", "gcr.io.example/a", "a@gcr.io/a", "*.gcr.io/a", ".gcr.io/a", "pkg.dev/a", "/",
	} {
		response, said, err := ask(t, image)
		if err != nil || len(response.Auth) != 0 || !strings.Contains(said, "none of Google's registries") {
			t.Errorf("%s: %+v, %v: %s", image, response, err, said)
		}
	}
}

func TestWhatTheMetadataServerSaysIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		want   string
	}{
		"no JSON":      {200, "planted", "no JSON of an access token"},
		"no token":     {200, `{"expires_in": 3600}`, "has no access token"},
		"another form": {200, `{"access_token": ["planted"]}`, "no JSON of an access token"},
		"refused":      {403, "planted", "answered 403 Forbidden"},
		"no account":   {404, "planted", "the instance has no service account"},
	} {
		metadataServer(t, c.status, c.text)
		_, said, err := ask(t, "gcr.io/p/a")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error()+said, "planted") {
			t.Errorf("%s: %v: %s", name, err, said)
		}
	}
}

func TestAMetadataServerThatIsNotThereEndsWithTheTime(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(silent.URL, "http://"))
	_, _, err := ask(t, "gcr.io/p/a", "--timeout=100ms")
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "everything may take 100ms") {
		t.Errorf("error %v", err)
	}
}

func TestALargeRequestIsNotRead(t *testing.T) {
	err := Run(t.Context(), Process{In: strings.NewReader(strings.Repeat(" ", requestLimit+1)), Out: io.Discard, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("error %v", err)
	}
}
