package controlplane

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// KubeletFlagsFile is where kubeadm keeps the kubelet's flags.
const KubeletFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"

// kubeletVariables are the variables whose values are kubelet flags.
var kubeletVariables = []string{"KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS"}

// kubeletLine is a line NAME="flags" of an environment file.
type kubeletLine struct {
	index        int
	name, quote  string
	args         []string
	tail, prefix string
}

// ParseKubeletFlags reads the flags of a kubelet from an environment file.
func ParseKubeletFlags(env []byte) (map[string]string, error) {
	lines, err := kubeletLines(env)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, l := range lines {
		for k, v := range FlagsOf(l.args) {
			out[k] = v
		}
	}
	return out, nil
}

func kubeletLines(env []byte) ([]kubeletLine, error) {
	var out []kubeletLine
	for i, line := range strings.SplitAfter(string(env), "\n") {
		body := strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(body)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		name, value, ok := strings.Cut(trimmed, "=")
		if !ok {
			return nil, fmt.Errorf("line %d is not NAME=value", i+1)
		}
		known := false
		for _, k := range kubeletVariables {
			known = known || k == name
		}
		if !known {
			continue
		}
		l := kubeletLine{index: i, name: name, tail: line[len(body):]}
		if q := value[:min(1, len(value))]; q == `"` || q == "'" {
			if len(value) < 2 || !strings.HasSuffix(value, q) {
				return nil, fmt.Errorf("line %d: the quote of %s is not closed", i+1, name)
			}
			l.quote, value = q, value[1:len(value)-1]
		}
		l.args = strings.Fields(value)
		out = append(out, l)
	}
	return out, nil
}

// ApplyKubelet carries setFlag and unsetFlag out on an environment file of a kubelet. It is pure and idempotent.
func ApplyKubelet(env []byte, edits []v1.Edit) ([]byte, error) {
	lines, err := kubeletLines(env)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("it has no %s", kubeletVariables[0])
	}
	before := map[int]string{}
	for _, l := range lines {
		before[l.index] = strings.Join(l.args, " ")
	}
	for _, e := range edits {
		if err := editKubelet(lines, e); err != nil {
			return nil, err
		}
	}
	text := strings.SplitAfter(string(env), "\n")
	for _, l := range lines {
		if after := strings.Join(l.args, " "); after != before[l.index] {
			text[l.index] = l.name + "=" + l.quote + after + l.quote + l.tail
		}
	}
	return []byte(strings.Join(text, "")), nil
}

func editKubelet(lines []kubeletLine, e v1.Edit) error {
	if e.Op != "setFlag" && e.Op != "unsetFlag" {
		return fmt.Errorf("edit %q is not known for a kubelet", e.Op)
	}
	set := false
	for li := range lines {
		var out []string
		args := lines[li].args
		for i := 0; i < len(args); {
			name, value, n := flagAt(args, i)
			switch {
			case name != e.Name:
				out = append(out, args[i:i+n]...)
			case e.Op == "setFlag" && !set && value == e.Value:
				out, set = append(out, args[i:i+n]...), true
			case e.Op == "setFlag" && !set:
				out, set = append(out, "--"+e.Name+"="+e.Value), true
			}
			i += n
		}
		lines[li].args = out
	}
	if e.Op == "setFlag" && !set {
		lines[0].args = append(lines[0].args, "--"+e.Name+"="+e.Value)
	}
	return nil
}
