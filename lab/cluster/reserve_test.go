package cluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTwoLabsHaveDifferentBlocks(t *testing.T) {
	dir := t.TempDir()
	a, err := reserveBlock(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := reserveBlock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	if a.prefix == b.prefix {
		t.Errorf("both have %s0/24", a.prefix)
	}
	a.release()
	again, err := reserveBlock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.release()
	if again.prefix != a.prefix {
		t.Errorf("the block that was given back is not taken again: %s, want %s", again.prefix, a.prefix)
	}
}

func TestABlockWithAForeignListenerIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	a, err := reserveBlock(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", a.endpoint(placeCloud, portCloud))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only a test's listener
	a.release()
	b, err := reserveBlock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	if b.prefix == a.prefix {
		t.Errorf("%s0/24 was taken although somebody listens there", b.prefix)
	}
}

func TestTakeDirTouchesOnlyALabsDirectory(t *testing.T) {
	root := t.TempDir()
	write := func(path string) string {
		t.Helper()
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	foreign := write("foreign/thesis.tex")
	if _, err := takeDir(filepath.Join(root, "foreign")); err == nil || !strings.Contains(err.Error(), "other content") {
		t.Errorf("foreign directory: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("its content is gone: %v", err)
	}
	if _, err := takeDir(foreign); err == nil {
		t.Error("a file was taken for a directory")
	}

	lab := filepath.Join(root, "lab")
	first, err := takeDir(lab)
	if err != nil {
		t.Fatal(err)
	}
	old := write("lab/hosts/cp-1/old")
	if _, err := takeDir(lab); err == nil || !strings.Contains(err.Error(), "a lab is running") {
		t.Errorf("directory of a running lab: %v", err)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("a running lab's file is gone: %v", err)
	}
	first.release()
	second, err := takeDir(lab)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("an earlier lab's file is still there: %v", err)
	}
}

func TestBadOptionsAreRefusedBeforeAnythingStarts(t *testing.T) {
	for name, o := range map[string]Options{
		"no directory":      {},
		"too many workers":  {Dir: t.TempDir(), Workers: maxWorkers + 1},
		"a negative number": {Dir: t.TempDir(), Workers: -1},
	} {
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: it started", name)
		}
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "lab"), LockDir: t.TempDir(), Workers: 1} // no binaries: etcd cannot start
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "etcd v3.5.15 was not built") {
		t.Fatalf("error is %v, want the program that is missing", err)
	}
	dir, err := takeDir(o.Dir)
	if err != nil {
		t.Errorf("its directory is still held: %v", err)
	} else {
		dir.release()
	}
	b, err := reserveBlock(o.LockDir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	if b.prefix != "127.50.1." && !busy("127.50.1.") {
		t.Errorf("its addresses are still held: the next block is %s", b.prefix)
	}
}

// busy reports whether somebody outside of the test uses a block.
func busy(prefix string) bool { return (&block{prefix: prefix}).usable() != nil }
