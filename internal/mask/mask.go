// Package mask decides what of a text, a command line or a document may leave its cluster. Snapshots, findings, plans,
// differences, journals, reports, errors and conditions show no secret.
//
// A secret is known by the name it has, by its looks, or by how random it is. Command lines stay comparable: a masked
// value is the same word each time, whatever it was. That is why two masked texts say nothing about whether a secret
// changed. No hash of a secret is kept in its place, since a weak one is found by trying.
//
// What no rule knows is not masked: a short secret under a harmless name, for example. Keep secrets in Secrets.
package mask

import (
	"net/url"
	"regexp"
	"strings"
)

// Masked stands for a value that is left out.
const Masked = "(masked)"

// lastApplied is the annotation with which kubectl keeps a copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Named returns what may be shown of a value that has a name: a flag's, an annotation's, a parameter's.
func Named(name, value string) string { return reveal(maskNamed(name, protect(value))) }

func maskNamed(name, value string) string {
	if isSecretName(name) && !isHarmless(name, value) {
		return hidden
	}
	return maskText(value)
}

// Map returns a map without secrets; nil for an empty one.
func Map(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, value := range in {
		out[name] = Named(name, value)
	}
	return out
}

// maxAnnotation is the length in bytes up to which an annotation is looked through for secrets. Who may write one
// object may fill 256 KiB of it, and thousands of objects: what is longer is left out as a whole.
const maxAnnotation = 8 << 10

// Annotations returns annotations or labels without secrets, and without kubectl's copy of the object.
func Annotations(in map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range in {
		switch {
		case name == lastApplied:
		case len(value) > maxAnnotation:
			kept[name] = Masked
		default:
			kept[name] = Named(name, value)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// Command returns a command line without secrets. A value is known by its flag, after = or in the next argument.
// Scripts are split into words as a shell does it.
func Command(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		previous := ""
		if i > 0 {
			previous = args[i-1]
		}
		out[i] = reveal(maskArgument(protect(previous), protect(arg)))
	}
	return out
}

func maskArgument(previous, arg string) string {
	arg = maskUserFlags(arg)
	if name, value, ok := strings.Cut(arg, "="); ok && isFlagName(name) {
		if value = maskNamed(strings.TrimLeft(name, "-"), value); value != hidden {
			value = maskScript(value)
		}
		return name + "=" + value
	}
	if isFlagName(previous) && !isFlagName(arg) {
		if isUserFlag(previous) {
			return maskUser(arg)
		}
		if name := strings.TrimLeft(previous, "-"); maskNamed(name, arg) == hidden {
			return hidden
		}
	}
	return maskText(maskScript(arg))
}

var flagName = regexp.MustCompile(`^--?[A-Za-z][\w.-]*$`)

// isFlagName reports whether an argument is a flag without a value, as --api_key.
func isFlagName(arg string) bool { return flagName.MatchString(arg) }

// isUserFlag reports whether a flag takes user:password, as curl's does.
func isUserFlag(arg string) bool {
	return arg == "-u" || arg == "-U" || arg == "--user" || arg == "--proxy-user"
}

// userFlag finds such a flag and its value in one word: --user=jane:password, or -ujane:password.
var userFlag = regexp.MustCompile(`((?:^|[\s"'(])(?:-[uU]=?|--(?:proxy-)?user=)[^\s:="']+:)[^\s"']+`)

func maskUserFlags(text string) string { return userFlag.ReplaceAllString(text, "${1}"+hidden) }

func maskUser(value string) string {
	if user, password, ok := strings.Cut(value, ":"); ok && password != "" {
		return user + ":" + hidden
	}
	return maskText(value)
}

// word matches a shell's word: pieces with and without quotes behind each other. What a shell would refuse is split as
// well as it goes, since a broken script leaks no less.
var word = regexp.MustCompile(`(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\;|&<>()` + "`" + `])+`)

// maskScript masks the values of flags in a script. Everything else stays, byte by byte.
func maskScript(text string) string {
	if !strings.ContainsAny(text, " \t\n") {
		return text
	}
	var out strings.Builder
	at, previous := 0, ""
	for _, found := range word.FindAllStringIndex(text, -1) {
		raw := text[found[0]:found[1]]
		plain := unquote(raw)
		kept := raw
		if strings.HasPrefix(plain, "-") || isFlagName(previous) {
			if masked := maskArgument(previous, plain); masked != plain {
				kept = quoteLike(raw, masked)
			}
		} else if plain != raw && strings.ContainsAny(plain, " \t\n") {
			if masked := maskScript(plain); masked != plain { // sh -c "sh -c '...'"
				kept = quoteLike(raw, masked)
			}
		}
		out.WriteString(text[at:found[0]])
		out.WriteString(kept)
		at, previous = found[1], plain
		if strings.ContainsAny(betweenWords(text, found[1]), "\n;|&") {
			previous = "" // the next word begins another command
		}
	}
	out.WriteString(text[at:])
	return out.String()
}

// betweenWords returns what stands at an index before the next word. A line that ends in a backslash goes on.
func betweenWords(text string, at int) string {
	rest := text[at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune(" \t\n;|&<>()", r) })
	if end < 0 {
		return rest
	}
	return rest[:end]
}

var quoting = regexp.MustCompile(`"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)`)

func unquote(raw string) string {
	if !strings.ContainsAny(raw, `"'\`) {
		return raw
	}
	return quoting.ReplaceAllStringFunc(raw, func(piece string) string {
		switch piece[0] {
		case '"':
			return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(piece[1 : len(piece)-1])
		case '\'':
			return piece[1 : len(piece)-1]
		}
		return piece[1:]
	})
}

// quoteLike quotes a word as another was.
func quoteLike(raw, text string) string {
	switch {
	case strings.HasPrefix(raw, `"`) && strings.HasSuffix(raw, `"`):
		return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
	case strings.HasPrefix(raw, `'`) && strings.HasSuffix(raw, `'`):
		return "'" + text + "'"
	}
	return text
}

// URL returns scheme, host and path of an address.
func URL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return Masked
	}
	if u.User != nil {
		u.User = url.User(Masked)
	}
	if u.RawQuery != "" {
		u.RawQuery = "masked"
	}
	u.Fragment = ""
	text := u.String()
	return Text(strings.ReplaceAll(text, url.User(Masked).String()+"@", Masked+"@"))
}

// Proxy returns the address of a proxy without its user, also where it has no scheme.
func Proxy(value string) string {
	if at := strings.LastIndex(value, "@"); at >= 0 && !strings.Contains(value, "://") {
		return Masked + value[at:]
	}
	if u, err := url.Parse(value); err != nil || u.User != nil {
		return URL(value)
	}
	return Text(value)
}

// Server returns the address of an API server as a kubeconfig has it, without its user, also where it has no scheme.
func Server(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = Masked + rest[at:]
	}
	return Text(scheme + rest)
}

// Error returns what an error says, without secrets; empty for none.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return Text(Beginning(err.Error(), maxRead))
}

// Texts returns texts without secrets; nil for none.
func Texts(in []string) []string {
	var out []string
	for _, text := range in {
		out = append(out, Text(text))
	}
	return out
}
