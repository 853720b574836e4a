package build

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tinyMain = `package main

import "fmt"

var version = "unstamped"

func main() { fmt.Println(version) }
`

// tiny is a set of one program without dependencies.
func tiny(change func(fstest.MapFS)) Set {
	files := fstest.MapFS{
		"go.mod.txt":  {Data: []byte("module example.org/tiny\n\ngo 1.26\n")},
		"main.go.txt": {Data: []byte(tinyMain)},
	}
	if change != nil {
		change(files)
	}
	return Set{
		Name: "tiny", Version: "v1.2.3", files: files, LDFlags: []string{"-X main.version=v1.2.3"},
		Commands: []Command{{Name: "hello", Package: "example.org/tiny", Image: "example.org/hello:v1.2.3"}},
	}
}

func options(t *testing.T, set Set) Options {
	t.Helper()
	return Options{CacheDir: t.TempDir(), Sets: []string{set.ID()}, known: []Set{set}}
}

// leftovers lists what builds have left in the cache besides finished sets and locks.
func leftovers(t *testing.T, cacheDir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cacheDir, "building", "*"))
	if err != nil {
		t.Fatal(err)
	}
	sets, err := filepath.Glob(filepath.Join(cacheDir, "sets", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(found, sets...)
}

func TestEnsureBuildsOnceAndStampsTheVersion(t *testing.T) {
	var progress bytes.Buffer
	o := options(t, tiny(nil))
	o.Progress = &progress
	bins, err := Ensure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	file, err := bins.Path("hello", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(file).Output()
	if err != nil || string(out) != "v1.2.3\n" {
		t.Fatalf("program printed %q, %v; want its stamped version", out, err)
	}
	if byImage, ok := bins.Image("example.org/hello:v1.2.3"); !ok || byImage != file {
		t.Errorf("image resolves to %q, %v; want %q", byImage, ok, file)
	}
	for _, want := range []string{"tiny v1.2.3: looking up its modules", "tiny v1.2.3: built in"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, progress.String())
		}
	}
	if _, err := bins.Path("hello", "v9"); err == nil {
		t.Error("a version that was not built has a path")
	}

	progress.Reset()
	start := time.Now()
	if _, err := Ensure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if progress.Len() > 0 {
		t.Errorf("second run was not silent, it built again:\n%s", progress.String())
	}
	if d := time.Since(start); d > 2*time.Second { // generous: the machine may be busy; a build takes longer
		t.Errorf("second run took %s", d)
	}
}

func TestEnsureRebuildsWhatWasDamaged(t *testing.T) {
	cases := map[string]func(file string) error{
		"a program that was removed":             os.Remove,
		"a program that was cut short":           func(f string) error { return os.Truncate(f, 10) },
		"a program that may not be executed":     func(f string) error { return os.Chmod(f, 0o644) },
		"a set whose record of sizes is missing": func(f string) error { return os.Remove(filepath.Join(f, "../../", sizeFile)) },
		"a set whose record of sizes is garbage": func(f string) error {
			return os.WriteFile(filepath.Join(f, "../../", sizeFile), []byte("{"), 0o644)
		},
	}
	o := options(t, tiny(nil))
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			bins, err := Ensure(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			file, err := bins.Path("hello", "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(file); err != nil {
				t.Fatal(err)
			}
			if _, err := Ensure(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if err := exec.Command(file).Run(); err != nil {
				t.Errorf("program is still damaged: %v", err)
			}
		})
	}
}

func TestFailedBuildsLeaveNothingBehind(t *testing.T) {
	sysMod := "module example.org/tiny\n\ngo 1.26\n\nrequire golang.org/x/sys v0.47.0\n"
	sysMain := "package main\n\nimport _ \"golang.org/x/sys/unix\"\n\nfunc main() {}\n"
	cases := map[string]struct {
		change  func(fstest.MapFS)
		command *Command
		want    string
	}{
		"source that does not compile": {
			change: func(f fstest.MapFS) {
				f["main.go.txt"] = &fstest.MapFile{Data: []byte("package main\n\nfunc main() { nope() }\n")}
			},
			want: "undefined: nope",
		},
		"a module that go.sum does not know": {
			change: func(f fstest.MapFS) {
				f["go.mod.txt"] = &fstest.MapFile{Data: []byte(sysMod)}
				f["main.go.txt"] = &fstest.MapFile{Data: []byte(sysMain)}
			},
			want: "missing go.sum entry",
		},
		"a module whose content is not the one go.sum names": {
			change: func(f fstest.MapFS) {
				f["go.mod.txt"] = &fstest.MapFile{Data: []byte(sysMod)}
				f["main.go.txt"] = &fstest.MapFile{Data: []byte(sysMain)}
				f["go.sum.txt"] = &fstest.MapFile{Data: []byte(
					"golang.org/x/sys v0.47.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" +
						"golang.org/x/sys v0.47.0/go.mod h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")}
			},
			want: "checksum mismatch",
		},
		"a command that is not in the module": {
			command: &Command{Name: "other", Package: "example.org/tiny/other"},
			want:    "example.org/tiny/other",
		},
	}
	// Settings that would turn the verification off, were they honoured.
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GONOSUMCHECK", "1")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := tiny(tc.change)
			if tc.command != nil {
				set.Commands = []Command{*tc.command}
			}
			o := options(t, set)
			_, err := Ensure(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "tiny v1.2.3") {
				t.Fatalf("error is %v, want one that names the set and says %q", err, tc.want)
			}
			if left := leftovers(t, o.CacheDir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestInterruptedBuildStopsAtOnceAndIsRepeated(t *testing.T) {
	o := options(t, tiny(nil))
	key := keyOf(t, o.known[0])
	killed := filepath.Join(o.CacheDir, "building", o.known[0].ID()+"-"+key+"-123")
	if err := os.MkdirAll(filepath.Join(killed, "result", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ensure(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v, want context.Canceled", err)
	}
	if _, err := Ensure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the killed build left is still there: %v", err)
	}
}

func keyOf(t *testing.T, s Set) string {
	t.Helper()
	tc, err := findToolchain(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.key(tc)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeyChangesWithEverythingThatMakesAProgram(t *testing.T) {
	tc := toolchain{version: "go1.26.8", platform: "linux/amd64"}
	base := tiny(nil)
	cases := map[string]struct {
		set Set
		tc  toolchain
	}{
		"a file":     {tiny(func(f fstest.MapFS) { f["main.go.txt"] = &fstest.MapFile{Data: []byte("package main")} }), tc},
		"a new file": {tiny(func(f fstest.MapFS) { f["go.sum.txt"] = &fstest.MapFile{} }), tc},
		"the linker flags": {func() Set {
			s := tiny(nil)
			s.LDFlags = []string{"-s"}
			return s
		}(), tc},
		"the commands": {func() Set {
			s := tiny(nil)
			s.Commands = append(s.Commands, Command{Name: "more"})
			return s
		}(), tc},
		"the Go version": {base, toolchain{version: "go1.26.9", platform: "linux/amd64"}},
		"the platform":   {base, toolchain{version: "go1.26.8", platform: "linux/arm64"}},
	}
	want, err := base.key(tc)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := tiny(nil).key(tc); again != want {
		t.Fatalf("the same set has keys %s and %s", want, again)
	}
	seen := map[string]string{want: "the base"}
	for name, c := range cases {
		key, err := c.set.key(c.tc)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s gives the key of %s", name, other)
		}
		seen[key] = name
	}
}

func TestOnlyOneProcessBuildsASet(t *testing.T) {
	o := options(t, tiny(nil))
	set := o.known[0]
	c := cache{dir: o.CacheDir}
	var progress bytes.Buffer
	unlock, err := c.lock(t.Context(), set, "key", &progress)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.lock(ctx, set, "key", &progress); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("second lock: %v, want it to wait until its context ends", err)
	}
	if !strings.Contains(progress.String(), "another process is building it") {
		t.Errorf("the one that waits does not say so: %q", progress.String())
	}
	unlock()
	unlock, err = c.lock(t.Context(), set, "key", &progress)
	if err != nil {
		t.Fatalf("lock after its release: %v", err)
	}
	unlock()
}

func TestTroubleWithTheCacheDirectoryIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	readonly := t.TempDir()
	if err := os.Chmod(readonly, 0o500); err != nil {
		t.Fatal(err)
	}
	fullDisk := fakeGo(t, "echo 'write /tmp/x: no space left on device' >&2; exit 1")
	cases := map[string]struct {
		dir, command, want string
		is                 error
		skip               bool
	}{
		"below a file":         {dir: filepath.Join(file, "cache"), want: "lies below a file", is: syscall.ENOTDIR},
		"read-only":            {dir: filepath.Join(readonly, "cache"), want: "cannot be written", is: fs.ErrPermission, skip: unix.Geteuid() == 0},
		"on a full disk":       {dir: t.TempDir(), command: fullDisk, want: "MB free", is: syscall.ENOSPC},
		"without a go command": {dir: t.TempDir(), command: "/nonexistent/go", want: "install Go"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.skip {
				t.Skip("root may write everywhere")
			}
			o := options(t, tiny(nil))
			o.CacheDir, o.Go = tc.dir, tc.command
			_, err := Ensure(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error is %v, want one that says %q", err, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v does not wrap %v", err, tc.is)
			}
		})
	}
}

// fakeGo is a go command that knows its settings and does script for everything else.
func fakeGo(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go")
	text := "#!/bin/sh\nif [ \"$1\" = env ]; then echo '{\"GOVERSION\":\"go1.26.0\"}'; exit 0; fi\n" + script + "\n"
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestALongBuildShowsThatItIsAlive(t *testing.T) {
	o := options(t, tiny(nil))
	release := filepath.Join(t.TempDir(), "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Go = fakeGo(t, "if [ \"$1\" = build ]; then echo example.org/a >&2; echo example.org/b >&2; read x < "+release+"; exit 1; fi; echo one")
	o.Heartbeat = time.Millisecond
	seen := make(chan struct{})
	o.Progress = &watcher{want: "compiled 2 of at most 1 packages", seen: seen}
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), o)
		done <- err
	}()
	<-seen
	if err := os.WriteFile(release, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a go command that fails is no error")
	}
}

func TestABuildInTheBackgroundHasTheLowestPriority(t *testing.T) {
	o := options(t, tiny(nil))
	nice := filepath.Join(t.TempDir(), "nice")
	if err := syscall.Mkfifo(nice, 0o600); err != nil {
		t.Fatal(err)
	}
	// The go command's children inherit its priority once it has it; the parent lowers it right after the start.
	o.Go = fakeGo(t, "if [ \"$1\" = build ]; then while [ \"$(nice)\" = 0 ]; do :; done; nice > "+nice+"; exit 1; fi; echo one")
	o.Background = true
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), o)
		done <- err
	}()
	got, err := os.ReadFile(nice)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a go command that fails is no error")
	}
	if string(got) != "19\n" {
		t.Errorf("the compilers run with a nice value of %q, want 19", got)
	}
}

// watcher closes seen when a line contains want.
type watcher struct {
	want string
	seen chan struct{}
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	if !w.done && bytes.Contains(p, []byte(w.want)) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

func TestUnknownSetIsRefusedWithTheKnownOnes(t *testing.T) {
	_, err := choose(Sets, []string{"kubernetes-v0.1.0"})
	if err == nil || !strings.Contains(err.Error(), "kubernetes-v1.26.0") {
		t.Errorf("error is %v, want the list of known sets", err)
	}
}

func TestEverySetHasItsFilesAndPins(t *testing.T) {
	for _, s := range Sets {
		source, err := s.source()
		if err != nil {
			t.Errorf("%s: %v", s.ID(), err)
			continue
		}
		for _, name := range []string{"go.mod", "go.sum", "components.go"} {
			if len(source[name]) == 0 {
				t.Errorf("%s: %s is missing", s.ID(), name)
			}
		}
		for _, c := range s.Commands {
			if !strings.Contains(string(source["components.go"]), `"`+c.Package+`"`) {
				t.Errorf("%s: components.go does not import %s", s.ID(), c.Package)
			}
		}
		if !strings.Contains(string(source["go.mod"]), " "+s.Version+"\n") {
			t.Errorf("%s: go.mod does not pin %s", s.ID(), s.Version)
		}
	}
}

func TestDefaultName(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubectl": "kubectl",
		"go.etcd.io/etcd/server/v3":     "server",
		"example.org/tool/v12":          "tool",
		"example.org/tool/v1":           "v1",
		"tool":                          "tool",
	} {
		if got := defaultName(pkg); got != want {
			t.Errorf("defaultName(%q) = %q, want %q", pkg, got, want)
		}
	}
}

func TestProductIsBuiltFromItsCheckout(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module "+ProductModule+"\n\ngo 1.26\n")
	write("cmd/transplant/main.go", "package main\n\nfunc main() {}\n")
	write("cmd/aws-cloud-controller-manager/main.go", "package main\n\nfunc main() {}\n")
	write("lab/go.mod", "module "+ProductModule+"/lab\n\ngo 1.26\n")

	t.Chdir(filepath.Join(root, "lab"))
	found, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "bin")
	p, err := BuildProduct(t.Context(), found, out)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{p.CLI, p.CCM} {
		if err := exec.Command(file).Run(); err != nil {
			t.Errorf("running %q: %v", file, err)
		}
	}
	write("cmd/transplant/main.go", "package main\n\nfunc main() { nope() }\n")
	if _, err := BuildProduct(t.Context(), found, out); err == nil || !strings.Contains(err.Error(), "undefined: nope") {
		t.Errorf("error is %v, want the compiler's message", err)
	}
	t.Chdir(t.TempDir())
	if _, err := FindRoot(); err == nil {
		t.Error("a directory outside any checkout has a root")
	}
}

// A manifest says which version of the upstream manager runs by its tag, and every check believes the tag.
func TestTheUpstreamManagerHasTheVersionOfItsTag(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := upstreamModule + " " + UpstreamCCMVersion + "\n"; !strings.Contains(string(data), want) {
		t.Errorf("go.mod does not require %q", want)
	}
}
