// Package remedy decides what the command of a finding does: whether it only reads, changes something, or deletes,
// drains or stops something. It goes by the command itself, so that no check can call a command harmless that is not.
package remedy

import (
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// KindOf returns the kind of a command: look where each of its parts is known to read only, else fix.
func KindOf(command string) v1.FixKind {
	parts := split(command)
	for _, p := range parts {
		if !p.isReadOnly() {
			return v1.FixChange
		}
	}
	if len(parts) == 0 {
		return v1.FixChange
	}
	return v1.FixLook
}

// Destroys reports whether a command deletes, drains or stops something. Such a command needs a condition and a
// warning.
func Destroys(command string) bool { return slices.ContainsFunc(split(command), simple.isDestructive) }

// simple is a command of a list or pipeline: its words, and the files that it writes.
type simple struct{ words, writes []string }

// split returns the simple commands of a command line, without its comment. It knows the quotes, operators and
// redirections that the commands of findings have.
func split(line string) []simple {
	var s splitter
	for _, r := range line {
		if s.isQuoted(r) {
			continue
		}
		if r == '#' && !s.begun {
			break
		}
		s.addRune(r)
	}
	s.endCommand()
	return s.out
}

// splitter is a command line that has been read as far as to a rune.
type splitter struct {
	out  []simple
	now  simple
	word string
	// begun: the word may still be empty, as that of two quotes.
	begun, redirects, escaped bool
	quote                     rune
}

// isQuoted reports whether a rune is a quote, or has no meaning because of one, and takes it then.
func (s *splitter) isQuoted(r rune) bool {
	switch {
	case s.escaped:
		s.word, s.escaped = s.word+string(r), false
	case r == '\\' && s.quote != '\'':
		s.escaped, s.begun = true, true
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote != 0:
		s.word += string(r)
	case r == '\'' || r == '"':
		s.quote, s.begun = r, true
	default:
		return false
	}
	return true
}

func (s *splitter) addRune(r rune) {
	switch {
	case strings.ContainsRune("|&;\n", r):
		s.endCommand()
	case strings.ContainsRune("> \t", r) && isPlaceholder(s.word):
		s.word += string(r) // of <cloud-controller-manager of your version>
	case r == '>':
		s.endWord()
		s.redirects = true
	case r == ' ' || r == '\t':
		s.endWord()
	default:
		s.word, s.begun = s.word+string(r), true
	}
}

func (s *splitter) endWord() {
	switch {
	case !s.begun:
	case s.redirects:
		s.now.writes, s.redirects = append(s.now.writes, s.word), false
	default:
		s.now.words = append(s.now.words, s.word)
	}
	s.word, s.begun = "", false
}

func (s *splitter) endCommand() {
	s.endWord()
	if len(s.now.words) > 0 {
		s.out = append(s.out, s.now)
	}
	s.now = simple{}
}

// isPlaceholder reports whether a word is within a placeholder, as <value>: its end is no redirection.
func isPlaceholder(word string) bool {
	open := strings.LastIndexByte(word, '<')
	return open >= 0 && open+1 < len(word) && !strings.Contains(word[open:], ">")
}

// readers are programs that only read, whatever their arguments are.
var readers = []string{
	"base64", "cat", "diff", "grep", "head", "journalctl", "ls", "pgrep", "ps", "sha256sum", "sort", "ss", "stat", "test",
	"tr",
}

// verbs are, for other programs, the words one of which a command has if it reads only.
var verbs = map[string][]string{
	"kubectl":   {"get", "describe", "logs", "auth", "version", "explain", "top", "api-resources"},
	"kubeadm":   {"plan"},
	"openstack": {"show", "list", "issue"},
	"az":        {"show", "list"},
	"gcloud":    {"describe", "list"},
	"govc":      {"info", "ls"},
	"systemctl": {"cat", "show", "status", "list-units"},
	"crictl":    {"ps", "images", "inspect", "inspecti", "logs"},
	"helm":      {"get", "list", "status"},
	"chronyc":   {"tracking", "sources"},
	"openssl":   {"x509", "s_client"},
}

// verbBegins are, for programs whose second word says what is done, how that word begins in commands that only read.
var verbBegins = map[string][]string{"aws": {"describe-", "get-", "list-"}}

// clouds are the programs of clouds, installers and runtimes, which delete by a word of that name.
var clouds = []string{"aws", "az", "gcloud", "govc", "openstack", "helm", "crictl"}

// isReadOnly reports whether a command only reads. Files that it writes may be those of the directory in which it is
// run.
func (c simple) isReadOnly() bool {
	if slices.ContainsFunc(c.writes, func(at string) bool { return path.IsAbs(at) && at != "/dev/null" }) {
		return false
	}
	program, rest := c.words[0], c.words[1:]
	switch program {
	case "transplant":
		return readsOwn(rest)
	case "sed":
		return !slices.ContainsFunc(rest, func(w string) bool { return strings.HasPrefix(w, "-i") })
	case "curl":
		return !slices.ContainsFunc(rest, func(w string) bool {
			return strings.HasPrefix(w, "-d") || strings.HasPrefix(w, "-X") || w == "--request" || w == "-T"
		})
	case "echo", "printf":
		return true // to where is asked above
	}
	if begins := verbBegins[program]; len(begins) > 0 {
		isBegin := func(begin string) bool { return strings.HasPrefix(rest[1], begin) }
		return len(rest) > 1 && slices.ContainsFunc(begins, isBegin)
	}
	if slices.Contains(readers, program) || strings.HasSuffix(program, "credential-provider") {
		return true // a credential provider is asked with a request on its standard input, and answers
	}
	return !c.isDestructive() && slices.Contains(verbs[program], verbOf(program, rest))
}

// verbOf is the word of a command that says what it does: the first one that is no flag, no flag's value and no topic.
func verbOf(program string, words []string) string {
	known := verbs[program]
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "-n" || words[i] == "--namespace":
			i++
		case strings.HasPrefix(words[i], "-"):
		case program == "kubectl" || slices.Contains(known, words[i]):
			return words[i]
		}
	}
	return ""
}

// readsOwn reports whether a command of this program shows more of what was found. One with an option of a plan gives
// the option that the finding asks for, and is the repair.
func readsOwn(words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "explain", "diff", "verify", "status", "report", "timeline":
		return true
	case "snapshot", "check", "plan":
		return !slices.ContainsFunc(words[1:], func(w string) bool {
			return strings.HasPrefix(w, "-") && w != "-o" && !strings.HasPrefix(w, "--out")
		})
	}
	return false
}

// isDestructive reports whether a command deletes, drains or stops something.
func (c simple) isDestructive() bool {
	program, rest := c.words[0], c.words[1:]
	isDelete := func(w string) bool {
		return w == "delete" || w == "rm" || w == "uninstall" || strings.HasPrefix(w, "delete-")
	}
	if slices.Contains(clouds, program) {
		return slices.ContainsFunc(rest, isDelete)
	}
	switch program {
	case "transplant":
		return slices.Contains(rest, "remove-orphans") && !slices.Contains(rest, "--dry-run")
	case "kubectl":
		return slices.Contains([]string{"delete", "drain"}, verbOf(program, rest)) || slices.Contains(rest, "--replicas=0")
	case "systemctl":
		return slices.Contains(rest, "stop") || slices.Contains(rest, "disable") || slices.Contains(rest, "mask")
	case "rm", "kill", "pkill", "shutdown":
		return true
	case "mv": // the kubelet stops the pod of a manifest that is gone
		return slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, "/manifests/") }) &&
			!strings.Contains(rest[len(rest)-1], "/manifests/")
	}
	return false
}
