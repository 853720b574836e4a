package testimony

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhoIsTestifiedFor: what cannot be testified for waits for leases, and with always it is an error at the start.
func TestWhoIsTestifiedFor(t *testing.T) {
	for name, test := range map[string]struct {
		wanted  Mode
		env     map[string]string
		path    string
		message string // what is in the file before; none where it is empty
		want    bool
		err     string
	}{
		"in a pod":                    {Always, map[string]string{envPodName: "p", envNodeName: "n"}, "log", "old", true, ""},
		"no process of a container":   {Auto, map[string]string{envPodName: "p", envNodeName: "n"}, "log", "old", false, ""},
		"switched off":                {Never, map[string]string{envPodName: "p", envNodeName: "n"}, "log", "old", false, ""},
		"a pod without its name":      {Always, map[string]string{envNodeName: "n"}, "log", "old", false, "POD_NAME"},
		"a pod without its node":      {Always, map[string]string{envPodName: "p"}, "log", "old", false, "NODE_NAME"},
		"no file that a kubelet made": {Always, map[string]string{envPodName: "p", envNodeName: "n"}, "log", "", false, "log"},
		"a directory":                 {Always, map[string]string{envPodName: "p", envNodeName: "n"}, ".", "", false, "is no file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envPodName, test.env[envPodName])
			t.Setenv(envNodeName, test.env[envNodeName])
			path := filepath.Join(t.TempDir(), test.path)
			if test.message != "" {
				if err := os.WriteFile(path, []byte(test.message), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Prepare(test.wanted, path, "host_1")
			switch {
			case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("the error is %v", err)
			case (got != nil) != test.want:
				t.Errorf("testified for: %+v", got)
			}
			if test.message == "" {
				return
			}
			want := test.message
			if test.want {
				want = Epitaph("host_1")
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != want {
				t.Errorf("the message is %q, %v", data, err)
			}
		})
	}
}
