package main

import (
	"os"
	"os/exec"
	"path/filepath"
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
