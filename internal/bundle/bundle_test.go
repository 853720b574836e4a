package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/visible"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func usual() Options {
	return Options{MaxBytes: DefaultMaxBytes, Timeout: time.Minute, LogTimeout: time.Second, Lines: DefaultLines, LogBytes: DefaultLogBytes}
}

func of(o Options, documents ...Document) *Bundle {
	b := New(v1.BundleManifest{ToolVersion: "v1", Created: noon, Cluster: v1.Cluster{UID: "uid"}}, o)
	for _, d := range documents {
		b.Add(context.Background(), d)
	}
	return b
}

func holding(name string, doc any) Document {
	return Document{Name: name, What: "what " + name + " is", Read: func(context.Context) (any, error) { return doc, nil }}
}

func failing(name string, err error) Document {
	return Document{Name: name, What: "what " + name + " is", Read: func(context.Context) (any, error) { return nil, err }}
}

// unpacked are the files of an archive, and its headers in order.
func unpacked(t *testing.T, archive []byte) (map[string]string, []*tar.Header) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files, headers := map[string]string{}, []*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
		headers = append(headers, h)
	}
}

func TestAnArchiveHoldsWhatItsManifestSays(t *testing.T) {
	b := of(usual(), holding("a.json", map[string]string{"x": "y"}), failing("b.json", errors.New("forbidden")), failing("c.json", Nothing("no migration")))
	b.Note("a note")
	archive, m, err := b.Archive()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.BundleManifest{
		TypeMeta: v1.Type(v1.KindBundleManifest), ToolVersion: "v1", Created: noon, Cluster: v1.Cluster{UID: "uid"},
		Limits:  v1.BundleLimits{MaxBytes: DefaultMaxBytes, LogBytes: DefaultLogBytes, LogLines: DefaultLines, TimeoutSeconds: 60, LogTimeoutSeconds: 1},
		Files:   []v1.BundleFile{{Name: "a.json", What: "what a.json is", Bytes: 15, SHA256: sum("{\n  \"x\": \"y\"\n}\n")}},
		Missing: []v1.BundleGap{{What: "b.json", Error: "forbidden"}}, Notes: []string{"c.json is not there: no migration", "a note"},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("manifest (-want +have):\n%s", diff)
	}
	files, headers := unpacked(t, archive)
	var kept v1.BundleManifest
	if err := json.Unmarshal([]byte(files["transplant-bundle/manifest.json"]), &kept); err != nil || cmp.Diff(want, kept) != "" {
		t.Errorf("%v, manifest.json (-want +have):\n%s", err, cmp.Diff(want, kept))
	}
	if files["transplant-bundle/a.json"] != "{\n  \"x\": \"y\"\n}\n" || len(files) != 2 || headers[0].Name != "transplant-bundle/manifest.json" {
		t.Errorf("files %q", files)
	}
	for _, h := range headers {
		if h.Mode != 0o600 || h.Typeflag != tar.TypeReg || !h.ModTime.Equal(noon) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("header %+v", h)
		}
	}
	again, _, err := b.Archive()
	if err != nil || !bytes.Equal(again, archive) {
		t.Errorf("the same bundle gives other bytes, %v", err)
	}
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func TestADocumentIsMaskedByNamesAndLooks(t *testing.T) {
	secrets, planted := canary.PlantError()
	_, texts := canary.Plant()
	const next, env, header = "CanaryOfTheNextArgument7hunter2", "CanaryOfAnEnvironment7hunter2", "CanaryOfAField7hunter2"
	for secret, where := range map[string]string{next: "a command line", env: "a pair", header: "a field"} {
		secrets[secret] = where
	}
	doc := map[string]any{
		"args": []string{"kcm", "--db-pass", next}, "texts": texts, "all": planted.Error(), "list": []any{1, nil, true, 1.5, []string{}, map[string]any{}},
		"env": []map[string]string{{"name": "DB_PASS", "value": env}, {"name": "HOME", "value": "/root"}}, "password": header, "a\u202eb": "c\x1bd\x7fe\u009bf",
	}
	text, err := encodeDocument(doc)
	if err != nil {
		t.Fatal(err)
	}
	if found := secrets.In(string(text)); len(found) > 0 {
		t.Errorf("the secret of %q is shown:\n%s", found, text)
	}
	if strings.ContainsFunc(strings.ReplaceAll(string(text), "\n", ""), visible.IsObeyed) {
		t.Errorf("a terminal obeys something in:\n%q", text)
	}
	var have map[string]any
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	want := []any{1.0, nil, true, 1.5, []any{}, map[string]any{}}
	if cmp.Diff(want, have["list"]) != "" || have["a\u202eb"] != "c\x1bd\x7fe\u009bf" || have["password"] != "(masked)" {
		t.Errorf("what holds no secret has changed: %v", have)
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "DB_PASS", "value": "(masked)"}, map[string]any{"name": "HOME", "value": "/root"}}, have["env"]); diff != "" {
		t.Errorf("env (-want +have):\n%s", diff)
	}
}

// TestASnapshotIsStillOne: what is masked once more can be judged as the one that transplant snapshot saves.
func TestASnapshotIsStillOne(t *testing.T) {
	paths, err := filepath.Glob("../check/testdata/captured/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range append(paths, "../plan/testdata/lab.yaml") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := snapshot.Load(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		text, err := encodeDocument(before)
		if err != nil {
			t.Fatal(err)
		}
		after, err := snapshot.Load(bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", path, diff)
		}
	}
}

func TestWhatHasNoRoomIsCutOrNamed(t *testing.T) {
	o := usual()
	o.MaxBytes = MinBytes
	b := of(o, holding("small.json", "x"), holding("large.json", strings.Repeat("x ", MinBytes)))
	line := strings.Repeat("y", 99) + "\n"
	log := func(name string, previous bool) file {
		return file{BundleFile: v1.BundleFile{Name: name, Previous: previous}, data: bytes.Repeat([]byte(line), 6000), isLog: true}
	}
	b.files = append(b.files, log("logs/a-previous.log", true), log("logs/a.log", false), log("logs/b.log", false), log("logs/c.log", false))
	archive, m, err := b.Archive()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	total := int64(0)
	for _, f := range m.Files {
		names = append(names, f.Name)
		total += f.Bytes
		if (f.Cut != "") != (f.Name == "logs/b.log") {
			t.Errorf("%s is cut: %q", f.Name, f.Cut)
		}
	}
	if want := []string{"small.json", "logs/a.log", "logs/b.log"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	files, _ := unpacked(t, archive)
	all := 0
	for name, text := range files {
		if all += len(text); strings.HasSuffix(name, ".log") && strings.ReplaceAll(text, line, "") != "" {
			t.Errorf("%s has a line that is cut through", name)
		}
	}
	if all > MinBytes || total < MinBytes/2 {
		t.Errorf("%d bytes, at most %d", all, MinBytes)
	}
	var missing []string
	for _, gap := range m.Missing {
		missing = append(missing, gap.What)
		if !strings.Contains(gap.Error, "--max-size leaves room for") {
			t.Errorf("%s: %s", gap.What, gap.Error)
		}
	}
	if want := []string{"large.json", "logs/c.log", "logs/a-previous.log"}; !slices.Equal(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
}

func TestWhatIsReadTooLateIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := of(usual())
	b.Add(ctx, Document{Name: "slow.json", Read: func(ctx context.Context) (any, error) { cancel(); return nil, ctx.Err() }})
	b.Add(ctx, Document{Name: "late.json", Read: func(context.Context) (any, error) { t.Error("it was asked for"); return nil, nil }})
	m := b.Manifest()
	if len(m.Missing) != 2 || !b.IsTimedOut() || !strings.Contains(m.Missing[0].Error, "--timeout") || !strings.Contains(m.Missing[1].Error, "--timeout") {
		t.Errorf("%+v", m.Missing)
	}
	other := of(usual(), failing("a.json", errors.New("token: hunter2hunter2\x1b[2J")))
	if gap := other.Manifest().Missing[0]; other.IsTimedOut() || gap.Error != `token: (masked)` && strings.Contains(gap.Error, "hunter2") {
		t.Errorf("%+v", gap)
	}
}

// TestNoNameOfAPodIsTheNameOfAFile: who may create pods chooses their names, and their containers'.
func TestNoNameOfAPodIsTheNameOfAFile(t *testing.T) {
	var pods []corev1.Pod
	for _, name := range []string{"../../../etc/cron.d/x", "a\x1b[2Jb", "/abs", strings.Repeat("n", 1000), "..", ""} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}, Spec: corev1.PodSpec{NodeName: "n\nb"}}
		p.Spec.Containers = []corev1.Container{
			{Name: "../c", Command: []string{"kube-apiserver"}}, {Name: "side", Command: []string{"sleep"}},
			{Name: "m", Command: []string{"/bin/aws-cloud-controller-manager", "--v=2"}},
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "m", RestartCount: 1}}
		pods = append(pods, p)
	}
	logs, left := logsOf(pods)
	if len(logs) != 3*len(pods) || len(left) > 0 {
		t.Fatalf("%d logs, %q", len(logs), left)
	}
	for i, l := range logs {
		stem := strings.TrimSuffix(strings.TrimPrefix(l.Name, "logs/"), ".log")
		if strings.Trim(stem, "abcdefghijklmnopqrstuvwxyz-0123456789") != "" || !strings.HasPrefix(l.Name, "logs/") {
			t.Errorf("file %q", l.Name)
		}
		if slices.IndexFunc(logs, func(o logOf) bool { return o.Name == l.Name }) != i {
			t.Errorf("%s is the name of two files", l.Name)
		}
		if strings.ContainsFunc(l.What+l.Object+l.Node, func(r rune) bool { return r == '\n' || visible.IsObeyed(r) }) {
			t.Errorf("%q, %q, %q", l.What, l.Object, l.Node)
		}
	}
	for range 10 {
		pods = append(pods, pods[:6]...)
	}
	if logs, left := logsOf(pods); len(logs) != 3*maxContainers || len(left) != 2 || !strings.Contains(left[0], "of cloud-controller-manager") {
		t.Errorf("%d logs, left %q", len(logs), left)
	}
}

func TestSecretsAreKnownByTheirPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/secrets": true, "/api/v1/namespaces/kube-system/secrets": true, "/api/v1/namespaces/a/secrets/b": true, "/api/v1/watch/namespaces/a/secrets/b": true,
		"/k8s/clusters/c/api/v1/namespaces/a/secrets/b": true, "/api/v1/namespaces/n/services/s/proxy/api/v1/namespaces/a/secrets/b": true, "/api/v1/namespaces/secrets": false, "/api/v1/namespaces/secrets/pods": false,
		"/api/v1/namespaces/a/configmaps/secrets": false, "/version": false, "/apis/apps/v1/namespaces/a/deployments/secrets": false,
	} {
		if have := isOfSecrets(path); have != want {
			t.Errorf("%s: %v", path, have)
		}
	}
}
