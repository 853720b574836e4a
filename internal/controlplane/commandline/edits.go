package commandline

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// MaxChanges bounds the single changes of one edit; a flag that is given more often than that is no manifest.
const MaxChanges = 1000

// CheckOtherFlags returns an error when an edit has changed another flag than its own. "--a --b c" is read as a flag
// --b with the value c unless --b is a boolean. Removing --b would then make c the value of --a.
func CheckOtherFlags(e v1.Edit, before, after []string) error {
	own := NormalizeName(e.Name)
	had, have := FlagsOf(before), FlagsOf(after)
	if e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag {
		delete(had, own)
		delete(have, own)
	}
	if !maps.Equal(had, have) {
		return errors.New(
			"a word that belongs to no flag would become the value of another flag; remove that word from the command and run the same command again",
		)
	}
	return nil
}

var (
	flagPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	volumePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	pathTypes     = map[string]bool{
		"":                  true,
		"File":              true,
		"Directory":         true,
		"FileOrCreate":      true,
		"DirectoryOrCreate": true,
	}
)

// ValidateEdit refuses an edit that would make a manifest that no kubelet takes.
func ValidateEdit(e v1.Edit) error {
	switch e.Op {
	case v1.EditSetFlag, v1.EditUnsetFlag:
		if !flagPattern.MatchString(NormalizeName(e.Name)) {
			return fmt.Errorf("%q is no name of a flag", e.Name)
		}
	case v1.EditAddHostPath, v1.EditRemoveHostPath:
		if !volumePattern.MatchString(e.Name) {
			return fmt.Errorf("%q is no name of a volume", e.Name)
		}
		if (e.Op == v1.EditAddHostPath || e.Value != "") &&
			(!strings.HasPrefix(e.Value, "/") || path.Clean(e.Value) != e.Value || strings.Contains(e.Value, ":")) {
			return fmt.Errorf("%q is no absolute path in its shortest form", e.Value)
		}
		if !pathTypes[e.PathType] {
			return fmt.Errorf("%q is no type of a host path", e.PathType)
		}
	case v1.EditSetImage:
		if !TagPattern.MatchString(e.Value) {
			return fmt.Errorf("%q is no tag of an image", e.Value)
		}
	default:
		return errors.New("this operation is not known")
	}
	if !utf8.ValidString(e.Value) || strings.ContainsFunc(e.Value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("its value holds a character that cannot be printed")
	}
	return nil
}

// TagPattern is what registries take for a tag.
var TagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
