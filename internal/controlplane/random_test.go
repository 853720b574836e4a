package controlplane

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// writer writes manifests in styles that it chooses by chance.
type writer struct{ *rand.Rand }

func (w writer) one(of ...string) string { return oneOf(w, of...) }

func oneOf[T any](w writer, of ...T) T { return of[w.IntN(len(of))] }

func (w writer) scalar(value string, flow bool) string {
	out := w.one(value, yamltext.QuoteDouble(value), "'"+strings.ReplaceAll(value, "'", "''")+"'")
	if out == value && (yamltext.QuoteScalar(value, 0, false) != value || flow && strings.ContainsAny(value, ",[]{}")) {
		return yamltext.QuoteDouble(value)
	}
	return out
}

// elements are flags and their values.
func (w writer) elements() []string {
	out := []string{}
	for range w.IntN(6) {
		name := w.one("--a", "--b-c", "--b_c", "--leader-elect", "--v", "--cloud-provider")
		value := w.one("x", "1", "true", "a b", "-1", "it's", "ä", "*,x", "")
		switch w.IntN(4) {
		case 0:
			out = append(out, name)
		case 1:
			out = append(out, name, value)
		default:
			out = append(out, name+"="+value)
		}
	}
	return out
}

func (w writer) list(key string, elements []string, indent string) string {
	if w.IntN(3) == 0 {
		var parts []string
		for _, e := range elements {
			parts = append(parts, w.scalar(e, true))
		}
		return indent + key + ": [" + strings.Join(parts, w.one(", ", ",", ",\n"+indent+"   ")) + "]\n"
	}
	if len(elements) == 0 {
		return indent + key + ":" + w.one("", " []", " null", " # none") + "\n"
	}
	out, deep := indent+key+":\n", indent+w.one("", "  ", "    ")
	for _, e := range elements {
		out += w.one("", "", deep+"# comment\n", "\n") + deep + "-" + w.one(" ", "   ") + w.scalar(e, false) + w.one("", "", " # why", "  ") + "\n"
	}
	return out
}

func (w writer) manifest() string {
	command, args := append([]string{"kube-scheduler"}, w.elements()...), w.elements()
	indent := w.one("    ", "      ")
	parts := []string{w.list("command", command, indent), indent + "image: x\n", indent + "name: first\n"}
	if w.IntN(2) == 0 {
		parts = append(parts, w.list("args", args, indent))
	}
	if w.IntN(2) == 0 {
		parts = append(parts, indent+"volumeMounts:\n"+indent+"- "+w.one("{mountPath: /old, name: old}", "mountPath: /old\n"+indent+"  name: old")+"\n")
	}
	w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	container := strings.TrimLeft(strings.Join(parts, ""), " \n")
	spec := []string{"  containers:\n" + indent[2:] + "- " + container}
	if w.IntN(2) == 0 {
		spec = append(spec, "  volumes:\n  - name: old\n    hostPath: {path: /old}\n")
	}
	w.Shuffle(len(spec), func(i, j int) { spec[i], spec[j] = spec[j], spec[i] })
	out := w.one("", "---\n", "# ä\n") + "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n" + strings.Join(spec, "") + w.one("", "status: {}\n")
	if w.IntN(4) == 0 {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	if w.IntN(4) == 0 {
		out = strings.TrimRight(out, "\r\n")
	}
	return out
}

// TestApplyByChance edits manifests of every style, one edit after the other, and keeps its own account of what they must say.
func TestApplyByChance(t *testing.T) {
	edited := 0
	for seed := range uint64(600) {
		w := writer{rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // the same ones in every run
		data := []byte(w.manifest())
		m, err := Parse(data)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, data)
		}
		flags, paths := m.Flags(), m.HostPaths()
		for range 4 {
			edit := v1.Edit{
				Op:    oneOf(w, v1.EditSetFlag, v1.EditSetFlag, v1.EditUnsetFlag, v1.EditAddHostPath, v1.EditRemoveHostPath),
				Name:  w.one("a", "b-c", "leader-elect", "v", "new"),
				Value: w.one("/x", "1", "a b", "-1", "it's", "off"),
			}
			if strings.HasSuffix(string(edit.Op), "HostPath") {
				edit = v1.Edit{Op: edit.Op, Name: "new", Value: "/new", PathType: "File"}
			}
			out, err := Apply(data, []v1.Edit{edit})
			if err != nil {
				if !strings.Contains(err.Error(), "rewrite that part") && !strings.Contains(err.Error(), "remove that word from the command") {
					t.Fatalf("seed %d, %+v: %v\n%s", seed, edit, err, data)
				}
				continue
			}
			edited++
			switch edit.Op {
			case v1.EditSetFlag:
				flags[edit.Name] = edit.Value
			case v1.EditUnsetFlag:
				delete(flags, edit.Name)
			case v1.EditAddHostPath:
				paths["/new"] = "/new"
			case v1.EditRemoveHostPath:
				delete(paths, "/new")
			default: // no other edit is about this
			}
			m, err := Parse(out)
			if err != nil {
				t.Fatalf("seed %d, %+v: %v\n%s", seed, edit, err, out)
			}
			what := fmt.Sprintf("seed %d, %+v\n%s\n%s", seed, edit, data, out)
			if diff := cmp.Diff(flags, m.Flags()); diff != "" {
				t.Fatalf("flags, -want +got:\n%s\n%s", diff, what)
			}
			if diff := cmp.Diff(paths, m.HostPaths()); diff != "" {
				t.Fatalf("paths, -want +got:\n%s\n%s", diff, what)
			}
			if again, err := Apply(out, []v1.Edit{edit}); err != nil || !bytes.Equal(again, out) {
				t.Fatalf("the second time: %v\n%s\n%s", err, what, again)
			}
			data, flags = out, maps.Clone(m.Flags())
		}
	}
	if edited < 2000 {
		t.Errorf("only %d edits were possible", edited)
	}
}
