package release

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// providerIns are the files of a module with an image credential provider, which is built from one other module.
var providerIns = map[string]string{
	"credentials/go.mod": "module example.com/product/credentials\n\ngo 1.26\n\nrequire github.com/spf13/pflag v1.0.10\n",
	"credentials/cmd/gcr-credential-provider/main.go": `package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

var version string

func main() { fmt.Println(version, pflag.NArg()) }
`,
}

func TestAnImageCredentialProviderIsReleasedForEachArchitectureWithTheLicensesOfWhatItIsBuiltFrom(t *testing.T) {
	o := checkout(t)
	for name, text := range providerIns {
		put(t, filepath.Join(o.Root, name), text)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(o.Root, "credentials/go.sum"), string(sums))
	gitIn(t, o.Root, "add", "-A")
	gitIn(t, o.Root, "commit", "-q", "-m", "Add a provider")
	o.Programs, o.Platforms, o.Development = []string{"gcr-credential-provider"}, []string{"darwin/arm64", "linux/amd64", "linux/arm64"}, true
	names, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var archives []string
	for _, name := range names {
		if strings.HasPrefix(name, "gcr-") {
			archives = append(archives, name)
		}
	}
	if got, want := strings.Join(archives, " "), "gcr-credential-provider-v1.2.3-linux-amd64.tar.gz gcr-credential-provider-v1.2.3-linux-arm64.tar.gz"; got != want {
		t.Fatalf("archives %s, want %s", got, want)
	}
	machines := map[string]byte{"amd64": 0x3e, "arm64": 0xb7} // e_machine of ELF
	for arch, machine := range machines {
		data, err := os.ReadFile(filepath.Join(o.Out, "gcr-credential-provider-v1.2.3-linux-"+arch+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		dir := "gcr-credential-provider-v1.2.3-linux-" + arch + "/"
		files := contents(t, data)
		program := files[dir+"gcr-credential-provider"]
		if program.mode != 0o755 || !bytes.HasPrefix(program.data, []byte("\x7fELF")) || program.data[18] != machine {
			t.Errorf("%s: the program is no executable of it (mode %o)", arch, program.mode)
		}
		notices := string(files[dir+"NOTICES"].data)
		for _, want := range []string{"github.com/spf13/pflag v1.0.10\n====", "The Go Authors", "the Go standard library\n===="} {
			if !strings.Contains(notices, want) {
				t.Errorf("%s: the notices do not say %q", arch, want)
			}
		}
		if strings.Contains(notices, "github.com/spf13/cobra") {
			t.Errorf("%s: the notices name a module that the program is not built from", arch)
		}
		if string(files[dir+"LICENSE"].data) != "free\n" || !strings.Contains(string(files[dir+"README.md"].data), "Transplant's own v1.2.3") {
			t.Errorf("%s: %s has no license, or another page", arch, dir)
		}
	}
	again := o
	again.Out = filepath.Join(t.TempDir(), "again")
	if _, err := Build(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		first, err1 := os.ReadFile(filepath.Join(o.Out, name))
		second, err2 := os.ReadFile(filepath.Join(again.Out, name))
		if err1 != nil || err2 != nil || !bytes.Equal(first, second) {
			t.Errorf("%s differs from one time to the next (%v, %v)", name, err1, err2)
		}
	}
}

func TestAModuleWithoutALicenseIsNotPublished(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "license.go"), "package x\n")
	put(t, filepath.Join(dir, "LICENSES/other"), "free\n")
	texts, err := licenseTexts(dir)
	if err == nil {
		t.Errorf("it has the licenses %q", texts)
	}
	put(t, filepath.Join(dir, "NOTICE.txt"), "by us\n")
	if texts, err = licenseTexts(dir); err != nil || len(texts) != 1 || texts[0] != "NOTICE.txt:\n\nby us" {
		t.Errorf("%q, %v", texts, err)
	}
}
