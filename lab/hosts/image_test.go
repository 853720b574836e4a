package hosts

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpack reads a tar file into names and contents.
func unpack(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}

func TestAnImageHoldsItsFilesUnderDigestsThatHold(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := Image{Ref: "example.test/a:1", Files: map[string]string{"/usr/local/bin/a": program}, Entrypoint: []string{"/usr/local/bin/a"}}
	var archives []string
	for _, name := range []string{"one.tar", "two.tar"} {
		if err := i.Write(t.Context(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, string(data))
	}
	if archives[0] != archives[1] {
		t.Error("the same files give different images")
	}
	f, err := os.Open(filepath.Join(dir, "one.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	files := unpack(t, f)
	for name, text := range files {
		if filepath.Dir(name) == "blobs/sha256" && blob(describe("", []byte(text))) != name {
			t.Errorf("%s does not have its digest", name)
		}
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != i.Ref {
		t.Errorf("the image is called %q", got)
	}
	var manifest struct{ Layers []descriptor }
	if err := json.Unmarshal([]byte(files[blob(index.Manifests[0])]), &manifest); err != nil {
		t.Fatal(err)
	}
	layer := files[blob(manifest.Layers[0])]
	if int64(len(layer)) != manifest.Layers[0].Size {
		t.Errorf("the layer has %d bytes, the manifest says %d", len(layer), manifest.Layers[0].Size)
	}
}

func TestAnImageOfAFileThatIsMissingLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	i := Image{Ref: "example.test/a:1", Files: map[string]string{"/a": filepath.Join(dir, "missing")}}
	if err := i.Write(t.Context(), filepath.Join(dir, "a.tar")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestOptionsThatMakeNoClusterAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"a long name":          {Name: "clusters"},
		"a name with a dash":   {Name: "a-b"},
		"a subnet of any size": {Subnet: "10.77.0.0/16"},
		"a subnet's address":   {Subnet: "10.77.0.1/24"},
		"too many hosts":       {ControlPlanes: 4},
		"too many workers":     {Workers: 4},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestAMachineWithTooFewInotifyInstancesIsToldOfBeforehand(t *testing.T) {
	if few := fewInotify(1 << 30); !strings.Contains(few, "sysctl -w fs.inotify.max_user_instances=") {
		t.Errorf("of hosts without number it says %q", few)
	}
	if few := fewInotify(-2); few != "" { // as many as every machine has
		t.Errorf("of no hosts at all it says %q", few)
	}
}

func TestHostsHaveAddressesNamesAndZonesOfTheirOwn(t *testing.T) {
	c, err := New(Options{Dir: t.TempDir(), Subnet: "10.80.1.0/24", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got [][3]string
	for _, h := range c.Hosts() {
		got = append(got, [3]string{h.Name, h.NodeName, h.Zone})
		if len(h.veth()) > 15 {
			t.Errorf("interface name %q is too long", h.veth())
		}
	}
	want := [][3]string{
		{"cp-1", "ip-10-80-1-11.ec2.internal", "us-east-1a"}, {"cp-2", "ip-10-80-1-12.ec2.internal", "us-east-1b"},
		{"cp-3", "ip-10-80-1-13.ec2.internal", "us-east-1a"}, {"worker-1", "ip-10-80-1-21.ec2.internal", "us-east-1a"},
	}
	if len(got) != len(want) {
		t.Fatalf("hosts are %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("host %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestAClusterThatWasNotStartedCannotBeOpened(t *testing.T) {
	if _, err := Open(Options{Dir: t.TempDir()}); err == nil {
		t.Error("it was opened")
	}
}
