package cli

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/client"
)

func TestTheImageOfPodsThatReachHosts(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]struct{ note, err string }{
		"registry.example.com:5000/transplant@" + digest:           {},
		"registry.example.com:5000/transplant:v1@" + digest:        {},
		"registry.example.com/transplant:v1":                       {note: "--host-image=NAME@sha256:DIGEST"},
		"registry.example.com/transplant":                          {note: "by its tag"},
		"registry.example.com/transplant@sha256:abc":               {err: "64 hexadecimal digits"},
		"registry.example.com/transplant@sha512:" + digest[7:]:     {err: "64 hexadecimal digits"},
		"registry.example.com/transplant@" + digest + "@" + digest: {err: "64 hexadecimal digits"},
	} {
		note, err := client.JudgeHostImage(image)
		if (want.note == "") != (note == "") || !strings.Contains(note, want.note) {
			t.Errorf("%s: note %q, want %q", image, note, want.note)
		}
		if (want.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: error %v, want %q", image, err, want.err)
		}
	}
}
