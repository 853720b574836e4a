package snapshot

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// masked stands for a value that is left out.
const masked = "(masked)"

// secretName matches names whose values are not for a snapshot.
var secretName = regexp.MustCompile(`(?i)secret|password|passwd|token|private-?key|credential|access-?key|api-?key`)

// aboutSecret matches the ends of names that speak of a secret and hold something else: where it lies, what it is called, how long it lasts.
var aboutSecret = regexp.MustCompile(`(?i)(file|files|dir|path|config|name|namespace|ttl|expiration|issuer|audiences)$`)

// harmless tells that the value under a secret's name is none: a switch (--use-service-account-credentials=true), a small number
// (--concurrent-serviceaccount-token-syncs=5), a duration, or the place of it.
func harmless(name, value string) bool {
	if value == "" || aboutSecret.MatchString(name) {
		return true
	}
	if _, err := strconv.Atoi(value); err == nil && len(value) <= 3 {
		return true
	}
	if _, err := strconv.ParseBool(value); err == nil {
		return true
	}
	_, err := time.ParseDuration(value)
	return err == nil
}

// maskNamed returns what a snapshot may keep of a value that has a name: a flag's, an annotation's, a parameter's.
func maskNamed(name, value string) string {
	if secretName.MatchString(name) && !harmless(name, value) {
		return masked
	}
	return maskText(value)
}

var (
	// assignment finds one of something secret inside a text: a shell command, a query, a piece of JSON.
	assignment = regexp.MustCompile(`(?i)([\w.-]*(?:secret|password|passwd|token)[\w.-]*)(["']?\s*[=:]\s*["']?)([^\s;]+)`)
	// userinfo is what stands before the host of a URL.
	userinfo = regexp.MustCompile(`(://)[^/@\s]+@`)
	// bearer and accessKey know two kinds of secrets by their looks.
	bearer    = regexp.MustCompile(`(?i)(bearer\s+)[\w.~+/=-]+`)
	accessKey = regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)
)

// maskText takes what looks like a secret out of a text.
func maskText(text string) string {
	text = userinfo.ReplaceAllString(text, "${1}"+masked+"@")
	text = bearer.ReplaceAllString(text, "${1}"+masked)
	text = accessKey.ReplaceAllString(text, masked)
	return maskAssignments(text)
}

// maskAssignments leaves feature gates alone: BoundServiceAccountTokenVolume=true,Other=false is no secret, and what follows it is looked at on
// its own.
func maskAssignments(text string) string {
	return assignment.ReplaceAllStringFunc(text, func(found string) string {
		part := assignment.FindStringSubmatch(found)
		first, rest, more := strings.Cut(part[3], ",")
		if !harmless(strings.TrimLeft(part[1], "-"), strings.Trim(first, `"'`)) {
			return part[1] + part[2] + masked
		}
		if more {
			return part[1] + part[2] + first + "," + maskAssignments(rest)
		}
		return found
	})
}

// maskCommand is a command line without secrets: by the flags' names, whether the value stands behind = or in the next argument, and by what the
// arguments hold.
func maskCommand(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case ok && strings.HasPrefix(arg, "-"):
			out[i] = name + "=" + maskNamed(strings.TrimLeft(name, "-"), value)
		case i > 0 && isBareFlag(args[i-1]) && !strings.HasPrefix(arg, "-"):
			out[i] = maskNamed(strings.TrimLeft(args[i-1], "-"), arg)
		default:
			out[i] = maskText(arg)
		}
	}
	return out
}

func isBareFlag(arg string) bool { return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") }

// maskFlags are flags without secrets.
func maskFlags(flags map[string]string) map[string]string { return maskMap(flags, maskNamed) }

// maskAnnotations are annotations without secrets, and without the copy of the whole object that kubectl keeps in one; nil when none are left.
func maskAnnotations(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	delete(kept, lastApplied)
	return maskMap(kept, maskNamed)
}

func maskMap(in map[string]string, mask func(name, value string) string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, value := range in {
		out[name] = mask(name, value)
	}
	return out
}

// maskURL keeps scheme, host and path of an address.
func maskURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return masked
	}
	if u.User != nil {
		u.User = url.User(masked)
	}
	if u.RawQuery != "" {
		u.RawQuery = "masked"
	}
	u.Fragment = ""
	text := u.String()
	return strings.ReplaceAll(text, url.User(masked).String()+"@", masked+"@")
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
