package mask

import (
	"regexp"
	"strings"
)

// maxRescans is how often the values in a text may be read in total before the rest of it is masked as a whole. Values
// within values are read again; only a text that was made for it comes near.
const maxRescans = 16

// maskAssignments leaves feature gates alone: BoundServiceAccountTokenVolume=true,Other=false is no secret, and what
// follows is looked at by itself.
func maskAssignments(text string) string {
	if !strings.ContainsAny(text, "=:") {
		return text
	}
	var out strings.Builder
	for left := maxRescans * len(text); ; {
		at := assigned.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		out.WriteString(text[:at[1]])
		name, separator := text[at[2]:at[3]], text[at[4]:at[5]]
		text = text[at[1]:]
		if !isSecretName(name) || beginsObject(text) {
			continue // What follows the separator may be an assignment itself: a=b=c, url: https://x?sig=y.
		}
		value := text[:valueLength(text)]
		if left -= len(value); left < 0 {
			return out.String() + hidden
		}
		kept, end := maskAssigned(name, separator, value, text[len(value):])
		out.WriteString(kept)
		text = text[end:]
	}
}

// blockHeader is what stands before a text over several lines in YAML, which is masked already.
var blockHeader = regexp.MustCompile(`^[|>][-+]?\d?[-+]?(?:\\n)?$`)

// maskAssigned returns what is kept of the value under a secret's name, and how many bytes of the value were looked at.
func maskAssigned(name, separator, value, rest string) (kept string, end int) {
	plain := strings.Trim(value, `"'\`)
	first, _, several := strings.Cut(plain, ",")
	switch {
	case value == "" || prose[strings.ToLower(plain)] || isSentence(name, separator, value, rest):
		return "", 0
	case aboutSecret.MatchString(name):
		return "", 0 // It is none, and may have one within it: tokenURL=https://x?sig=y.
	case isHarmless(name, plain) || blockHeader.MatchString(value):
		return value, len(value)
	case several && first != "" && isHarmless(name, first):
		end = strings.Index(value, ",")
		return value[:end], end
	}
	return quoteValue(value), len(value)
}

// maskPairs masks VALUE of {"name": NAME, "value": VALUE}, as errors of the API server print an environment.
func maskPairs(text string) string {
	if !strings.Contains(text, "alue") && !strings.Contains(text, "ALUE") {
		return text
	}
	var out strings.Builder
	for left := maxRescans * len(text); ; {
		at := paired.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		out.WriteString(text[:at[1]])
		name := text[at[2]:at[3]]
		text = text[at[1]:]
		if !isSecretName(name) || beginsObject(text) {
			continue
		}
		value := text[:valueLength(text)]
		if left -= len(value); left < 0 {
			return out.String() + hidden
		}
		if value != "" && !isHarmless(name, strings.Trim(value, `"'\`)) {
			out.WriteString(quoteValue(value))
			text = text[len(value):]
		}
	}
}

// maskBlocks masks a text over several lines under a secret's name: password: |
func maskBlocks(text string) string {
	if !strings.ContainsAny(text, "|>") {
		return text
	}
	var out strings.Builder
	for {
		at := block.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		name, end, indent := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]]
		out.WriteString(text[:at[1]])
		text = text[at[1]:]
		if !isSecretName(name) || aboutSecret.MatchString(name) {
			continue
		}
		length := 0
		for length < len(text) {
			line, rest, more := strings.Cut(text[length:], end)
			length += len(line)
			if more && (strings.HasPrefix(rest, indent) || strings.HasPrefix(rest, end)) {
				length += len(end)
				continue
			}
			break
		}
		out.WriteString(hidden)
		text = text[length:]
	}
}

// valueLength is how many bytes of a text are the value that it begins with: a quoted text, a list or a word. What is
// in a secret is not known, so that a character ends a word only where what follows it looks like another thing. The
// rest of a text is a value that is cut off.
func valueLength(text string) int {
	if strings.HasPrefix(text, "[") {
		return listLength(text)
	}
	at, mayQuote := 0, true // a quote within a word begins none: it ends the text that the word is in
	for at < len(text) {
		quoted, closed := 0, false
		if mayQuote {
			quoted, closed = quotedLength(text[at:])
		}
		mayQuote = quoted > 0
		switch {
		case quoted > 0:
			at += quoted
			if !closed || !goesOn(text[at:]) {
				return at
			}
		case endsWord(text[at:], at == 0):
			return at
		default:
			at++
		}
	}
	return at
}

// goesOn reports whether a value does behind a quote that ends a part of it: 'a”'b' in YAML, "a"b in a shell.
func goesOn(text string) bool {
	return text != "" && (isNameByte(text[0]) || text[0] == '$' || text[0] == '\'' || text[0] == '"')
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// lookahead is how many bytes of what follows are read to see what it is. It is read for each name and separator.
const lookahead = 100

func ahead(text string) string { return text[:min(len(text), lookahead)] }

// object is how an object begins in JSON, also the first of a list, and as Go prints it.
var object = regexp.MustCompile(`^(?:\[\s*)*\{\s*(?:\}|\\*"[^"\\]*\\*"\s*:)|^&[A-Za-z][\w.]*\{[A-Z]\w*:`)

// beginsObject reports whether a text begins with an object. Its fields have names of their own, by which they are
// masked: imagePullSecrets holds no secret.
func beginsObject(text string) bool { return object.MatchString(ahead(text)) }

// anotherValue is what follows the character that separates two values.
var anotherValue = regexp.MustCompile(`^\\*["']?[A-Za-z_][\w./-]*\\*["']?[ \t]*[=:]`)

// endsWord reports whether a word without quotes ends where a text begins.
func endsWord(text string, first bool) bool {
	next := text[1:]
	switch text[0] {
	case ' ', '\t', '\n', '\r', '\v', '\f':
		return true
	case '"', '\'', '}', ']', ')':
		return next == "" || !isNameByte(next[0])
	case '&', ';':
		return next == "" || strings.ContainsRune(" \t\n\r&;\"'", rune(next[0])) || startsValue(next)
	case ',':
		return first && (next == "" || strings.ContainsRune(" \t\n", rune(next[0])) || startsValue(next))
	}
	return false
}

func startsValue(text string) bool { return anotherValue.MatchString(ahead(text)) }

// quotedLength is the length of the quoted text that a text begins with, 0 for none. In JSON within JSON the quotes
// at both of its ends have as many backslashes before them; those within it have more.
func quotedLength(text string) (length int, closed bool) {
	depth := leadingBackslashes(text)
	if depth == len(text) || text[depth] != '"' && (text[depth] != '\'' || depth > 0) {
		return 0, false
	}
	quote, run := text[depth], 0
	for i := depth + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			run++
			continue
		case text[i] == quote && run%(2*depth+2) == depth:
			return i + 1, true
		case text[i] == '\n' && quote == '\'':
			return i, false
		}
		run = 0
	}
	return len(text), false
}

func leadingBackslashes(text string) int { return len(text) - len(strings.TrimLeft(text, `\`)) }

// listLength is the length of the list that a text begins with.
func listLength(text string) int {
	depth := 0
	for at := 0; at < len(text); {
		size := 1
		switch text[at] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return at + 1
			}
		default:
			quoted, _ := quotedLength(text[at:])
			size = max(1, quoted, leadingBackslashes(text[at:])) // each is counted once, however many there are
		}
		at += size
	}
	return len(text)
}

// quoteValue is the mask in the quotes of a value.
func quoteValue(value string) string {
	backslashes := leadingBackslashes(value)
	if rest := value[backslashes:]; rest != "" && strings.ContainsAny(rest[:1], `"'`) {
		quote := value[:backslashes+1]
		if strings.HasSuffix(value, quote) && len(value) >= 2*len(quote) {
			return quote + hidden + quote
		}
	}
	return hidden
}
