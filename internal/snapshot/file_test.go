package snapshot

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

func TestASavedSnapshotIsReadBackAsItWas(t *testing.T) {
	s := Gather(t.Context(), sources(t), collect.Options{})
	var b bytes.Buffer
	if err := Save(&b, s); err != nil {
		t.Fatal(err)
	}
	got, err := Load(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
}

// YAML that ends at the end of a line is YAML.
func TestASavedSnapshotThatWasCutOffIsRefused(t *testing.T) {
	var b bytes.Buffer
	if err := Save(&b, Gather(t.Context(), sources(t), collect.Options{})); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	tried := 0
	for at := range whole {
		if whole[at] != '\n' || at+1 == len(whole) {
			continue
		}
		tried++
		if _, err := Load(strings.NewReader(whole[:at+1])); err == nil || tried > 1 && !strings.Contains(err.Error(), "its end is missing") {
			t.Fatalf("cut behind line %d: %v", tried, err)
		}
	}
	if tried < 100 {
		t.Errorf("%d cuts", tried)
	}
	for name, same := range map[string]string{"Windows": strings.ReplaceAll(whole, "\n", "\r\n"), "more lines": whole + "\n\n"} {
		if _, err := Load(strings.NewReader(same)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoad(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"YAML": {"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v1\n", ""},
		"JSON": {`{"apiVersion":"transplant.dev/v1alpha1","kind":"Snapshot","toolVersion":"v1"}`, ""},
		"a manager's error from before it had a reason": {
			"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v1\nmanagers:\n- component: x\n  host: a\n  address: b\n  error: it is not there yet\n", "",
		},
		"an unknown field": {
			"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v9.1.0\nadded: later\n",
			`it has the field "added", which this version of transplant does not know; it was written by transplant v9.1.0: use that version, or take the snapshot again`,
		},
		"an unknown field far down": {
			"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\nnodes:\n- name: a\n  mood: good\n",
			`it has the field "mood", which this version of transplant does not know; it was written by another version of transplant`,
		},
		"a newer version": {
			"apiVersion: transplant.dev/v1beta1\nkind: Snapshot\ntoolVersion: v9.1.0\n",
			`apiVersion is "transplant.dev/v1beta1", written by transplant v9.1.0, and this version of transplant reads transplant.dev/v1alpha1 only; use the version that wrote it`,
		},
		"a newer schema": {
			"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\nschema: 99\ntoolVersion: v9.1.0\n",
			"the snapshot has schema 99, and this version of transplant knows no more than schema 2 of it: use transplant v9.1.0, which wrote it",
		},
		"a key twice":  {"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\nkind: Snapshot\n", `already set`},
		"a plan":       {"apiVersion: transplant.dev/v1alpha1\nkind: Plan\n", `kind is "Plan", not Snapshot`},
		"no kind":      {"apiVersion: transplant.dev/v1alpha1\n", "it names no kind, and a snapshot says Snapshot"},
		"nothing":      {"", "it is empty"},
		"a comment":    {"# nothing\n---\n", "it is empty"},
		"null":         {"null", "it is empty"},
		"not YAML":     {"a: [", "not YAML or JSON"},
		"a list":       {"- a\n", "it is a list and no snapshot"},
		"a JSON list":  {"[1]", "it is a list and no snapshot"},
		"a text":       {"hello", "it is a text and no snapshot"},
		"a number":     {"12", "it is a text and no snapshot"},
		"a wrong type": {"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\nnodes: many\n", "reading the snapshot: nodes holds a value (string) that no snapshot has there"},
		"a wrong head": {"kind: [a]\n", "kind holds a value (array) that no snapshot has there"},
		"two documents": {
			"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v1\n---\napiVersion: transplant.dev/v1alpha1\nkind: Snapshot\n",
			"it holds 2 YAML documents, and only the first would be judged",
		},
		"a document behind the end of one":                         {"kind: Snapshot\n...\nkind: Snapshot\n", "it holds 2 YAML documents"},
		"three documents, of which one is on a line with its sign": {"--- {kind: Snapshot}\r\n---\r\na: b\n--- # note\nc: d", "it holds 3 YAML documents"},
		"one document with signs around it":                        {"\ufeff# taken today\n%YAML 1.1\n---\napiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v1\n...\n---\n# end\n", ""},
		"signs within lines":                                       {"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\ntoolVersion: v1\ncluster:\n  version: |\n    a\n    ---\n    ---b\n", ""},
		"a binary":                                                 {"\x00\x01\x02", "not YAML or JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(strings.NewReader(tc.in))
			switch {
			case tc.want == "" && (err != nil || s.ToolVersion != "v1"):
				t.Errorf("got %+v, %v", s, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLoadCutsTheComplaintsOfTheParserShort(t *testing.T) {
	_, err := Load(strings.NewReader(strings.Repeat("a: 1\n", 1000)))
	if err == nil || strings.Count(err.Error(), "\n") != errorLines || !strings.HasSuffix(err.Error(), "\n  and 997 more lines") ||
		!strings.Contains(err.Error(), "line 3: ") {
		t.Errorf("got %v", err)
	}
	key := strings.Repeat("k", 1000)
	if _, err := Load(
		strings.NewReader(key + ": 1\n" + key + ": 2\n"),
	); err == nil || len(err.Error()) > 3*errorWidth ||
		!strings.Contains(err.Error(), "kkk...") {
		t.Errorf("got %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestSaveSaysWhyItCouldNot(t *testing.T) {
	err := Save(full{}, &v1.Snapshot{})
	if err == nil || err.Error() != "writing the snapshot: no space left on device" {
		t.Errorf("got %v", err)
	}
}
