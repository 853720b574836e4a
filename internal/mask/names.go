package mask

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// secretParts are what the name of a secret holds, without its separators: --api_key, apiKey and api-key are the same.
var secretParts = regexp.MustCompile(`secret|password|passwd|passphrase|passwort|token|privatekey|credential|` +
	`accesskey|apikey|authkey|sessionkey|licensekey|accountkey|storagekey|sharedkey|sharedaccess|encryptionkey|signingkey|masterkey|` +
	`certificatekey|keydata|connectionstring|basicauth|userpass|bearer|dockerconfigjson|cookie`)

// secretWords are whole words of such names: --db-pass is one, --bypass is not.
var secretWords = map[string]bool{
	"pass": true, "pwd": true, "pw": true, "psk": true, "sig": true, "passcode": true, "creds": true, "sas": true,
}

// secretNames are names that are meant only when they stand alone: --authorization-mode is harmless.
var secretNames = map[string]bool{"authorization": true, "proxyauthorization": true, "auth": true, "xauthkey": true}

// aboutSecret matches the ends of names that hold something else about a secret: where it lies, what it is called, how
// long it lasts.
var aboutSecret = regexp.MustCompile(`(?i)(file|files|dir|path|config|name|names|namespace|ttl|expiration|expiry|` +
	`issuer|audiences?|ref|version|type|url|uri|endpoint|hash|hashes|timeout|duration|provider)$`)

var (
	separators = regexp.MustCompile(`[-_.\s]+`)
	camel      = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	reference  = regexp.MustCompile(`^\$(\{\w+\}|\(.*\))$|^\$\(`)
	variable   = regexp.MustCompile(`^\$([A-Za-z_]\w*)$`)
	filePath   = regexp.MustCompile(`^/[\w.@-]+(/[\w.@-]+)+/?$`)
)

// isSecretName reports whether what has this name may be a secret.
func isSecretName(name string) bool {
	if at := strings.LastIndex(name, "/"); at >= 0 {
		name = name[at+1:] // an annotation's domain says nothing about it
	}
	for _, escaped := range []string{"u0026", "u003f"} { // & and ? before it, as JSON writes them
		name = strings.TrimPrefix(name, escaped)
	}
	words := separators.Split(strings.ToLower(camel.ReplaceAllString(name, "${1}-${2}")), -1)
	joined := strings.Join(words, "")
	if secretParts.MatchString(joined) || secretNames[joined] {
		return true
	}
	for _, w := range words {
		if secretWords[w] {
			return true
		}
	}
	return false
}

// isHarmless reports whether the value under a secret's name is none. It may be a switch
// (--use-service-account-credentials=true), a small number (--concurrent-serviceaccount-token-syncs=5), a duration, a
// variable, or the place of the secret.
func isHarmless(name, value string) bool {
	value = strings.TrimSpace(value)
	if value == "" || value == hidden || aboutSecret.MatchString(name) {
		return true
	}
	if isReference(value) || isPath(value) {
		return true
	}
	if _, err := strconv.Atoi(value); err == nil && len(value) <= 3 {
		return true
	}
	switch strings.ToLower(value) {
	case "true", "false", "null", "~", "{}", "[]":
		return true
	}
	_, err := time.ParseDuration(value)
	return err == nil
}

// isReference reports whether a value is that of a variable. $TOKEN is one, $W0RD may be a password.
func isReference(value string) bool {
	name := variable.FindStringSubmatch(value)
	return reference.MatchString(value) || name != nil && isSecretName(name[1])
}

// isPath reports whether a value is the path of a file: no piece of it looks random.
func isPath(value string) bool {
	return filePath.MatchString(value) && !isRandom(strings.ReplaceAll(value, "/", ""))
}
