package gce

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

func TestWhatTheProgramCannotStartWith(t *testing.T) {
	const rest = "project-id = lab\nnetwork-name = lab\n"
	for name, c := range map[string]struct{ config, says string }{
		"no config file":       {"{}", "reading the cloud config"},
		"no zone":              {"[global]\nlocal-zone = europe-west3\n" + rest, `local-zone "europe-west3" is no zone`},
		"an address without v": {"[global]\nlocal-zone = europe-west3-a\napi-endpoint = https://x/\n" + rest, "has to be an address that ends with /compute/v1/"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), []byte(c.config), Options{Metadata: client.Metadata{Host: "127.0.0.1:1"}})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestTheMetadataServerKnowsTheRest: on an instance, no config is needed.
func TestTheMetadataServerKnowsTheRest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := map[string]string{
			"/computeMetadata/v1/project/project-id":                    "lab",
			"/computeMetadata/v1/instance/zone":                         "projects/12/zones/europe-west3-b",
			"/computeMetadata/v1/instance/network-interfaces/0/network": "projects/12/networks/net",
		}[r.URL.Path]
		if _, err := w.Write([]byte(value)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	made, err := Open(t.Context(), nil, Options{Metadata: client.Metadata{Host: strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.project.conf; got.ProjectID != "lab" || got.Region != "europe-west3" || got.LocalZone != "europe-west3-b" || got.NetworkName != "net" {
		t.Errorf("project %s, region %s, zone %s, network %s", got.ProjectID, got.Region, got.LocalZone, got.NetworkName)
	}
	server.Close()
	_, err = Open(t.Context(), []byte("[global]\nproject-id = lab\n"), Options{Metadata: client.Metadata{Host: "127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "[global] local-zone is not set, and this machine does not know it") {
		t.Errorf("without the server the error is %v", err)
	}
}
