package document

import (
	"errors"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestADocumentIsReadByWhoKnowsAllOfIt(t *testing.T) {
	form := Form{Object: "journal ConfigMap kube-system/j", Kind: v1.KindJournal, Known: 2}
	const head = `{"apiVersion":"transplant.dev/v1alpha1","kind":"Journal"`
	for _, c := range []struct {
		name, data, want string
		newer            bool
	}{
		{"as it was before numbers", head + `,"run":"r","plan":{"steps":[{"id":"a"}]}}`, "", false},
		{"its number", head + `,"schema":2,"run":"r"}`, "", false},
		{"a newer number", head + `,"schema":3,"toolVersion":"v0.9.0","run":"r","what":1}`, "kube-system/j has schema 3, and this version of transplant knows no more than schema 2 of it: use transplant v0.9.0, which wrote it", true},
		{"a newer number of an unknown writer", head + `,"schema":3}`, "use a later version of transplant", true},
		{"a field that came later", head + `,"schema":2,"drains":[]}`, `has the field "drains"`, true},
		{"a field that came later, deep down", head + `,"plan":{"steps":[{"id":"a","edits":[{"op":"x","later":1}]}]}}`, `has the field "later"`, true},
		{"a number that there is not", head + `,"schema":-1}`, "it was edited", false},
		{"another kind", `{"apiVersion":"transplant.dev/v1alpha1","kind":"Plan","steps":[]}`, "holds transplant.dev/v1alpha1 Plan, which this version", false},
		{"another version", `{"apiVersion":"transplant.dev/v2","kind":"Journal"}`, "holds transplant.dev/v2 Journal", false},
		{"two documents", head + `}` + head + `}`, "is no JSON", false},
		{"no JSON", `x`, "is no JSON", false},
		{"a wrong type", head + `,"run":7}`, "cannot unmarshal", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j v1.Journal
			err := form.Read([]byte(c.data), &j)
			if c.want == "" {
				if err != nil || j.Run != "r" {
					t.Errorf("run %q, %v", j.Run, err)
				}
				return
			}
			var newer *NewerError
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "kube-system/j") || errors.As(err, &newer) != c.newer {
				t.Errorf("the error does not say %q: %v", c.want, err)
			}
		})
	}
}

func TestNothingMayStandBehindADocument(t *testing.T) {
	var v struct{ A int }
	if err := Strict([]byte(`{"a":1} `), &v); err != nil || v.A != 1 {
		t.Errorf("%d, %v", v.A, err)
	}
	if err := Strict([]byte(`{"a":1}{"a":2}`), &v); err == nil || !strings.Contains(err.Error(), "behind the end") {
		t.Errorf("two values: %v", err)
	}
}
