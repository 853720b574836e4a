package main

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// target says what a step really changes, by its fields and not by its words, as far as the line that is shown of it does not: the words may be somebody else's. It is
// never cut. Empty when the line says all.
func target(s v1.Step, o v1.Options, line string) string {
	var parts []string
	told := true
	for _, p := range targets(s, o) {
		told = told && strings.Contains(line, p.value)
		parts = append(parts, p.name+strings.Join(strings.Fields(p.value), " "))
	}
	if told {
		return ""
	}
	return strings.Join(parts, " · ")
}

// part is one field of a step in words.
type part struct{ name, value string }

// targets are the fields of a step that say where it acts, and what it brings there.
func targets(s v1.Step, o v1.Options) []part {
	var out []part
	add := func(name, value string) {
		if value != "" {
			out = append(out, part{name, value})
		}
	}
	if s.Kind == v1.StepVerify || s.Kind == v1.StepAwait {
		return nil // looks, and changes nothing
	}
	add("host ", s.Host)
	add("", s.Path)
	for _, at := range s.Files {
		add("", at)
	}
	add("unit ", s.Unit)
	add("", s.Ref)
	if s.Kind == v1.StepCopyFile || s.Kind == v1.StepWriteFile {
		add("from ", s.Source)
	}
	if s.Component == component.CCM && (s.Kind == v1.StepAddManifest || s.Kind == v1.StepEnsureObject) {
		add("image ", o.Image)
	}
	for _, e := range s.Edits {
		if !isTold(s.Changes, e) {
			add(e.Op+" "+e.Name+" ", e.Value)
		}
	}
	return out
}

// isTold tells that what is printed of a step's changes has an edit as it is.
func isTold(changes []v1.Change, e v1.Edit) bool {
	for _, c := range changes {
		if strings.Contains(c.Field, e.Name) && (c.After == e.Value || e.Op == "unsetFlag" && c.After == "") {
			return true
		}
	}
	return !strings.HasSuffix(e.Op, "Flag")
}
