package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/transplant-dev/transplant/internal/managerprogram/programtest"
)

func TestNoCloudIsLinked(t *testing.T) { programtest.LinksOneCloud(t, "") }

// mostBytes is how large the command line may become, stripped: 118 MB with the SDK of one cloud, 60 MB without.
const mostBytes int64 = 70e6

func TestTheProgramIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program")
	}
	at := filepath.Join(t.TempDir(), "transplant")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", at, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB stripped", float64(info.Size())/1e6)
	if info.Size() > mostBytes {
		t.Errorf("it has %d bytes stripped, and may have %d: go list -deps ./cmd/transplant shows what it links", info.Size(), mostBytes)
	}
}

// go install of a tag sets no variable. Its version decides the image of the pods on hosts, and the links of checks.
func TestTheVersionOfABuild(t *testing.T) {
	tagged := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0", Sum: "h1:abc="}}
	checkout := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.1-0.20261127000000-0123456789ab+dirty"}}
	for _, c := range []struct {
		set  string
		info *debug.BuildInfo
		want string
	}{
		{"v0.3.0", tagged, "v0.3.0"}, {"", tagged, "v0.2.0"}, {"", checkout, "v0.1.0-dev"}, {"", nil, "v0.1.0-dev"},
	} {
		if have := versionOf(c.set, c.info, "v0.1.0-dev"); have != c.want {
			t.Errorf("set %q, %+v: %s, want %s", c.set, c.info, have, c.want)
		}
	}
}
