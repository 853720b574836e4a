package kubeadm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// WholeText is a text of a snapshot if it is the cluster's own, by its hash. A snapshot masks what may be secret, and
// what is masked must never be written back.
func WholeText(text, sum string) (string, error) {
	if text != "" && hex.EncodeToString(HashOf(text)) != sum {
		return "", errors.New("the snapshot holds it with secrets masked")
	}
	return text, nil
}

// HashOf returns the SHA-256 of a text.
func HashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// EditGates changes lines of the featureGates of a KubeletConfiguration: a nil value takes a gate away. Everything else
// keeps its bytes. A text that is not plain block style is refused.
func EditGates(text string, gates map[string]any) (string, error) {
	if text == "" {
		return "", errors.New("its text is not known")
	}
	want, err := ParseTree(text)
	if err != nil {
		return "", err
	}
	section, ok := want["featureGates"].(map[string]any)
	if !ok {
		return "", errors.New("it has no featureGates")
	}
	for g, v := range gates {
		if section[g] = v; v == nil {
			delete(section, g)
		}
	}
	out := changeLines(strings.SplitAfter(text, "\n"), gates, len(section) == 0)
	if len(section) == 0 {
		delete(want, "featureGates")
	}
	have, err := ParseTree(out)
	if err != nil || !reflect.DeepEqual(want, have) {
		return "", errors.New("it is written in a way that cannot be edited line by line")
	}
	return out, nil
}

// ParseTree returns a YAML text as a tree; empty for an empty text.
func ParseTree(text string) (map[string]any, error) {
	out := map[string]any{}
	if err := safeyaml.Check([]byte(text)); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	return out, nil
}

// changeLines edits the lines below "featureGates:"; empty drops that line, too.
func changeLines(lines []string, gates map[string]any, empty bool) string {
	var out strings.Builder
	inside := false
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, " ") || trimmed == "" || strings.HasPrefix(trimmed, "#")
		if trimmed == "featureGates:" && !strings.HasPrefix(line, " ") {
			if inside = true; empty {
				continue
			}
		} else if !indented {
			inside = false
		}
		name, _, _ := strings.Cut(trimmed, ":")
		value, changed := gates[name]
		switch {
		case !inside || !changed:
			out.WriteString(line)
		case value != nil:
			fmt.Fprintf(&out, "%s%s: %v\n", line[:len(line)-len(strings.TrimLeft(line, " "))], name, value)
		}
	}
	return out.String()
}
