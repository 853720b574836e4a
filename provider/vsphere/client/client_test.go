package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/provider/transport"
)

func TestWhatARequestIs(t *testing.T) {
	for call, want := range map[string]transport.Request{
		"POST /rest/com/vmware/cis/session":                {Service: "cis", Operation: "POST session"},
		"GET /rest/com/vmware/cis/tagging/tag/id:urn:x":    {Service: "cis", Operation: "GET tag/{id}"},
		"POST /rest/com/vmware/cis/tagging/tag":            {Service: "cis", Operation: "POST tag", Mutates: true},
		"DELETE /rest/com/vmware/cis/tagging/tag/id:urn:x": {Service: "cis", Operation: "DELETE tag/{id}", Mutates: true},
		"POST /rest/com/vmware/cis/tagging/tag-association?~action=list-attached-tags-on-objects": {
			Service: "cis", Operation: "POST tag-association list-attached-tags-on-objects",
		},
		"POST /rest/com/vmware/cis/tagging/tag-association/id:x?~action=attach": {
			Service: "cis", Operation: "POST tag-association/{id} attach", Mutates: true,
		},
	} {
		method, path, _ := strings.Cut(call, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, "https://vc"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, Describe(request)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call, diff)
		}
	}
	for operation, mutates := range map[string]bool{"RetrievePropertiesEx": false, "Login": false, "Destroy_Task": true} {
		request, err := http.NewRequestWithContext(withOperation(t.Context(), operation), http.MethodPost, "https://vc/sdk", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := Describe(request); got.Mutates != mutates || got.Operation != operation {
			t.Errorf("%s: %+v", operation, got)
		}
	}
}

func TestCredentialsInBothForms(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"by the server": {"fd01::1.username": "u", "fd01::1.password": "p\n", "vc.username": "x", "vc.password": "y"},
		"by a suffix":   {"server_a": "FD01::1", "username_a": "u", "password_a": "p", "server_b": "vc", "username_b": "x", "password_b": "y"},
	} {
		t.Run(name, func(t *testing.T) {
			in := map[string][]byte{}
			for key, value := range data {
				in[key] = []byte(value)
			}
			got, err := pick(in, "fd01::1")
			if err != nil {
				t.Fatal(err)
			}
			if password, _ := got.Password(); got.Username() != "u" || password != "p" {
				t.Errorf("credentials of %q", got.Username())
			}
		})
	}
	_, err := pick(map[string][]byte{"vc.username": []byte("hunter2")}, "vc")
	if err == nil || !strings.Contains(err.Error(), "no vc.username and vc.password, only the keys vc.username") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}
