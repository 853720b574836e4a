package mask

import (
	"encoding/base64"
	"math"
	"regexp"
	"strings"
	"unicode"

	"github.com/transplant-dev/transplant/internal/visible"
)

var (
	// privateKey is a PEM block; its end may be missing, and its lines may be one with \n in it.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----` +
		`(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)`)
	// userinfo is what stands before the host of a URL: the last @ is its end, as Go has it. Behind a colon it may hold
	// a slash that is not escaped. A port and a path with an @ look the same and are masked, too.
	userinfo = regexp.MustCompile(`(://)(?:[^/\s"'@]*:[^\s"']*|[^/\s"']+)@`)
	// signature is what an address is signed with: by AWS, by Google, by CloudFront.
	signature = regexp.MustCompile(`(?i)((?:[?&;]|\\u0026|\\u003f)(?:x-amz-|x-goog-)?signature=)[^&\s"'\\]+`)
	bearer    = regexp.MustCompile(`(?i)\b(bearer\s+)([\w.~+/=-]{4,})`)
	basic     = regexp.MustCompile(`(?i)\b(basic\s+)([A-Za-z0-9+/]{6,}={0,2})`)
	// looks are secrets that are known by their looks. Each has one of some pieces in it: most texts have none, and
	// looking for a piece costs a hundredth of matching.
	looks = []secretPattern{
		{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?`)}, // JWT
		{
			[]string{"AKIA", "ASIA", "ABIA", "ACCA"}, // AWS
			regexp.MustCompile(`\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b`),
		},
		{
			[]string{"gh", "glpat-"}, // GitHub, GitLab
			regexp.MustCompile(`\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}`),
		},
		{
			[]string{"ya29.", "AIza", "GOCSPX-"}, // Google
			regexp.MustCompile(`\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}`),
		},
		{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[\w-]{10,}`)}, // Slack
		{[]string{"hv"}, regexp.MustCompile(`\bhv[sbr]\.[\w-]{20,}`)},      // Vault
		{
			[]string{"dop_v1_", "dckr_pat_"}, // DigitalOcean, Docker
			regexp.MustCompile(`\bdop_v1_[0-9a-f]{64}|\bdckr_pat_[\w-]{20,}`),
		},
		{[]string{"Q~"}, regexp.MustCompile(`\b[\w~.-]{3}\dQ~[\w~.-]{31,34}`)}, // Microsoft Entra
	}
	// bootstrap is a bootstrap token.
	bootstrap = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	// long is what may be encoded or random.
	long = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}={0,2}`)
	// assigned finds what comes before the value of name=value and name: value in a script, a query, JSON, a header or
	// a config. It does not hold the value behind it: the rest of a text would be read once for each name in it.
	assigned = regexp.MustCompile(`([A-Za-z_][\w./-]*)(\\*["']?[ \t]*(?:=|:)[ \t]*)`)
	// paired finds what comes before the value of {"name": NAME, "value": VALUE}, as YAML, JSON and Go write it.
	paired = regexp.MustCompile(`(?i)\bname\\*["']?[:=][ \t]*\\*["']?([A-Za-z_][\w.-]*)\\*["']?` +
		`(?:\s|,|\\n)+\\*["']?value\\*["']?[:=][ \t]*`)
	// block finds what comes before a text over several lines in YAML.
	block = regexp.MustCompile(`([A-Za-z_][\w./-]*)\\*["']?[ \t]*:[ \t]*[|>][-+0-9]*[ \t]*(\n|\\n)([ \t]+)`)
	// flagValue finds --name value.
	flagValue = regexp.MustCompile(`(^|[\s"'(])(--?[A-Za-z][\w.-]*)([ \t]+)` +
		`("[^"\n]*"|'[^'\n]*'|[^\s"';|&)\\-][^\s"';|&)]*)`)
	// listedFlag finds "--name","value" in JSON.
	listedFlag = regexp.MustCompile(`(\\?")(--?[A-Za-z][\w.-]*)(\\?"\s*,\s*)(\\?"(?:\\[^"]|[^"\\])*\\?")`)
	uid        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// secretPattern is how a secret of some cloud or service looks, and a piece of it, one of which each has.
type secretPattern struct {
	pieces  []string
	pattern *regexp.Regexp
}

func (l secretPattern) mask(text string) string {
	for _, piece := range l.pieces {
		if strings.Contains(text, piece) {
			return l.pattern.ReplaceAllString(text, hidden)
		}
	}
	return text
}

// hidden stands for a masked value while a text is worked on, so that no rule takes the mask for a value.
const hidden = "\ue000"

// protect and reveal turn masks into what the rules leave alone, and back.
func protect(text string) string { return strings.ReplaceAll(text, Masked, hidden) }
func reveal(text string) string  { return strings.ReplaceAll(text, hidden, Masked) }

// maxRead is what is read of an error, in bytes: the other end of a connection writes into some.
const maxRead = 64 << 10

// Cut returns a text without secrets. Of one that has more than limit bytes afterwards it is the beginning, with "..."
// behind it. What is cut first and masked then may show the beginning of a secret, which does not look like one.
func Cut(text string, limit int) string { return visible.Cut(Text(Beginning(text, maxRead)), limit) }

// CutAll is Cut for each of some texts.
func CutAll(texts []string, limit int) (out []string) {
	for _, text := range texts {
		out = append(out, Cut(text, limit))
	}
	return out
}

// Beginning returns the first words of a text that has more than limit bytes, with "..." behind them. It masks nothing.
// The word at the limit is left out, since half a password does not look like one.
func Beginning(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:strings.LastIndexAny(text[:limit], wordEnds)+1] + "..."
}

// wordEnds are the characters that no secret holds which is known by its looks, or by what is around it in a URL.
const wordEnds = " \t\r\n\f\"'"

// Text removes what looks like a secret from a text.
func Text(text string) string { return reveal(maskText(protect(text))) }

func maskText(text string) string {
	if len(text) < 4 {
		return text
	}
	if strings.Contains(text, "-----BEGIN") {
		text = privateKey.ReplaceAllString(text, hidden)
	}
	if strings.Contains(text, "://") {
		text = userinfo.ReplaceAllString(text, "${1}"+hidden+"@")
	}
	if strings.Contains(text, "ignature=") {
		text = signature.ReplaceAllString(text, "${1}"+hidden)
	}
	if strings.Contains(text, "-") && strings.Contains(text, ":") {
		text = maskUserFlags(text)
	}
	text = maskHeaders(text)
	for _, l := range looks {
		text = l.mask(text)
	}
	if dot := strings.IndexByte(text, '.'); dot >= 0 && len(text) > dot+16 {
		text = bootstrap.ReplaceAllString(text, hidden)
	}
	if len(text) >= 32 {
		text = long.ReplaceAllStringFunc(text, maskLong)
	}
	if strings.Contains(text, `"-`) {
		text = maskListedFlags(text)
	}
	return maskAssignments(maskPairs(maskBlocks(maskFlagValues(text))))
}

// maskHeaders masks what follows the words bearer and basic.
func maskHeaders(text string) string {
	lower := strings.ToLower(text)
	if strings.Contains(lower, "bearer") {
		text = bearer.ReplaceAllStringFunc(text, func(found string) string {
			part := bearer.FindStringSubmatch(found)
			if prose[strings.ToLower(part[2])] {
				return found
			}
			return part[1] + hidden
		})
	}
	if strings.Contains(lower, "basic") {
		text = basic.ReplaceAllStringFunc(text, func(found string) string {
			part := basic.FindStringSubmatch(found)
			if plain, ok := decodeBase64(part[2]); !ok || !strings.Contains(plain, ":") {
				return found
			}
			return part[1] + hidden
		})
	}
	return text
}

// maskListedFlags masks "--name","value".
func maskListedFlags(text string) string {
	return listedFlag.ReplaceAllStringFunc(text, func(found string) string {
		part := listedFlag.FindStringSubmatch(found)
		name, value := strings.TrimLeft(part[2], "-"), part[4]
		if !isSecretName(name) || isHarmless(name, strings.Trim(value, `\"`)) {
			return found
		}
		return part[1] + part[2] + part[3] + quoteValue(value)
	})
}

// maskLong masks a long word that is a private key or a token when decoded, or that is random.
func maskLong(found string) string {
	if plain, ok := decodeBase64(found); ok {
		if strings.Contains(plain, "-----BEGIN") {
			if strings.Contains(plain, "PRIVATE KEY") {
				return hidden
			}
			return found // certificates are for everybody
		}
		if isReadable(plain) && maskText(plain) != plain {
			return hidden
		}
	}
	if isRandom(found) {
		return hidden
	}
	return found
}

func decodeBase64(text string) (string, bool) {
	text = strings.TrimRight(text, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	text = text[:len(text)-len(text)%4] // an end that is cut off
	out, err := encoding.DecodeString(text)
	return string(out), err == nil
}

func isReadable(text string) bool {
	for _, r := range text {
		if r != '\n' && r != '\r' && r != '\t' && (r < ' ' || r > '~') {
			return false
		}
	}
	return true
}

// awsKey is the length of an AWS secret key.
const awsKey = 40

// isRandom reports whether a word was made by chance. Names change between capitals, small letters and digits where a
// word begins; random ones change at every second character. Hashes and UIDs (hexadecimal) are not meant.
func isRandom(text string) bool {
	text = uid.ReplaceAllString(strings.TrimRight(text, "="), "")
	if len(text) < 32 {
		return false
	}
	seen := map[rune]float64{}
	var kinds [3]int
	changes, last := 0, -1
	for _, r := range text {
		seen[r]++
		kind := kindOf(r)
		if kind < 0 {
			continue
		}
		kinds[kind]++
		if last >= 0 && kind != last {
			changes++
		}
		last = kind
	}
	letters := kinds[0] + kinds[1] + kinds[2]
	if kinds[0] < 4 || kinds[1] < 4 || kinds[2] == 0 || letters < len(text)*9/10 {
		return false
	}
	entropy, n := 0.0, float64(len(text))
	for _, count := range seen {
		entropy -= count / n * math.Log2(count/n)
	}
	restless := 0.42
	if len(text) == awsKey {
		restless = 0.3
	}
	return entropy >= 4 && float64(changes) >= restless*float64(letters)
}

// kindOf returns 0 for small letters, 1 for capitals, 2 for digits and -1 for others.
func kindOf(r rune) int {
	switch {
	case r >= 'a' && r <= 'z':
		return 0
	case r >= 'A' && r <= 'Z':
		return 1
	case r >= '0' && r <= '9':
		return 2
	}
	return -1
}

// prose are words that follow the name of a flag in a sentence, and are not its value.
var prose = wordSet("a an and are as at be but by can cannot could did do does for from given had has have if in " +
	"instead into is it it's may means missing must names needs not of off on once only or says sets should that the " +
	"then there this to token tokens too twice unless was were what when where which while who will with without " +
	"would auth authentication")

func wordSet(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}

// maskFlagValues masks --token VALUE. Sentences about a flag go on behind it with a word of English.
func maskFlagValues(text string) string {
	if !strings.Contains(text, "-") || !strings.ContainsAny(text, " \t") {
		return text
	}
	return flagValue.ReplaceAllStringFunc(text, func(found string) string {
		part := flagValue.FindStringSubmatch(found)
		name, value := strings.TrimLeft(part[2], "-"), part[4]
		if strings.ContainsAny(value[:1], `"'`) {
			value = value[1 : len(value)-1]
		}
		if prose[strings.ToLower(strings.TrimRight(value, ".,:"))] || !isSecretName(name) || isHarmless(name, value) {
			if value != part[4] { // sh -c 'p --token x'
				return part[1] + part[2] + part[3] + part[4][:1] + maskFlagValues(value) + part[4][len(part[4])-1:]
			}
			return found
		}
		return part[1] + part[2] + part[3] + quoteLike(part[4], hidden)
	})
}

// errorWords begin what an error says behind the name of an object, which may be called a token.
var errorWords = wordSet("get post put patch delete list watch create update secret secrets error failed unable no " +
	"unknown invalid context dial connection net http https x509 tls already unauthorized forbidden timeout unexpected " +
	"reading writing creating deleting exit open stat internal server client read write every all")

// isSentence reports whether a colon ends a clause, as in "Secret a/b-token: secrets are forbidden".
func isSentence(name, separator, value, rest string) bool {
	if !strings.HasSuffix(separator, ": ") {
		return false
	}
	quoted := strings.ContainsAny(separator, `"'`)
	if errs, several := strings.CutPrefix(value, "["); several { // as several errors are written in one
		return !quoted && strings.Contains(ahead(errs), " ") && errorWords[firstWord(errs)]
	}
	if !isWord(value) {
		return false
	}
	lower := strings.ToLower(value)
	return errorWords[lower] && strings.HasPrefix(rest, " ") || strings.Contains(name, "/") && !quoted ||
		!quoted && strings.HasPrefix(rest, " ") && lower == value && prose[firstWord(rest)]
}

func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && r != '\'' && r != '-'
	})
}

func firstWord(text string) string {
	if words := strings.Fields(ahead(text)); len(words) > 0 {
		return strings.ToLower(words[0])
	}
	return ""
}
