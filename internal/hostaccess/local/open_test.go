package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hosts makes directories and returns the one that holds them.
func hosts(t *testing.T, dirs ...string) string {
	t.Helper()
	parent := t.TempDir()
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(parent, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return parent
}

func TestOpenFindsHosts(t *testing.T) {
	parent := hosts(t, "worker-1/var/lib/kubelet", "cp-2/etc/kubernetes", "cp-1/etc/kubernetes", "logs/etc", "a=b/x")
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		spec string
		want []string
	}{
		"a directory of hosts":           {"local:" + parent, []string{"cp-1", "cp-2", "worker-1"}},
		"named directories":              {"local:b=" + parent + "/cp-1,a=" + parent + "/logs", []string{"a", "b"}},
		"a directory with an equal sign": {"local:" + hosts(t, "a=b/h/etc/kubernetes") + "/a=b", []string{"h"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Open(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, h := range got {
				names = append(names, h.Name())
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOpenFollowsALinkToAHost(t *testing.T) {
	parent := hosts(t, "elsewhere/real/etc/kubernetes", "hosts")
	if err := os.Symlink(filepath.Join(parent, "elsewhere/real"), filepath.Join(parent, "hosts/cp-1")); err != nil {
		t.Fatal(err)
	}
	got, err := Open("local:" + parent + "/hosts")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := filepath.EvalSymlinks(filepath.Join(parent, "elsewhere/real"))
	if len(got) != 1 || got[0].Name() != "cp-1" || got[0].(*Host).Dir != want {
		t.Errorf("got %+v", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	parent := hosts(t, "cp-1/etc/kubernetes", "nothing")
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ spec, want string }{
		"an unknown kind":           {"ssh:cp-1", "is no kind of host access: use pod, none, manual[:WAY], local:DIR"},
		"no kind":                   {"", "is no kind of host access"},
		"no directory":              {"local:", "names no directory"},
		"a directory without hosts": {"local:" + parent + "/nothing", "so that there is no host"},
		"a directory that is not":   {"local:" + parent + "/absent", "no such file or directory"},
		"a name without directory":  {"local:a=", "is not NAME=DIR"},
		"a directory without name":  {"local:=" + parent, "is not NAME=DIR"},
		"a pair and a directory":    {"local:a=" + parent + "/cp-1," + parent, "is not NAME=DIR"},
		"a name that is a path":     {"local:a/b=" + parent, "is no name of a host"},
		"one name twice":            {"local:a=" + parent + "/cp-1,a=" + parent + "/nothing", `host "a" is named twice`},
		"one directory twice": {
			"local:a=" + parent + "/cp-1,b=" + parent + "/../" + filepath.Base(parent) + "/cp-1",
			`hosts "a" and "b" are the same directory`,
		},
		"a host that is a file":     {"local:a=" + parent + "/file", `directory of host "a"`},
		"two hosts that are absent": {"local:b=/absent/b,a=/absent/a", "directory of host \"a\": lstat /absent: no such file or directory\ndirectory of host \"b\""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Open(tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
			if got != nil {
				t.Errorf("there are hosts next to the error: %v", got)
			}
		})
	}
}
