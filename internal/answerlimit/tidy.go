package answerlimit

import (
	"bytes"
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxString is what a string of an answer may have. The annotations of an object have 256 KiB, which escapes make six
	// times as long.
	maxString = 2 << 20
	// maxNumber is what a number may have, and a quantity, and maxExponent the digits of its exponent. An API server
	// writes quantities in a canonical form. A decoder of numbers takes time and memory for what they stand for.
	maxNumber   = 64
	maxExponent = 2
	// maxName is what a kind, a version or the type of an event may have.
	maxName = 256
)

// tidy makes one blank of each run of them, and writes into data. It refuses tokens that no API server sends: decoders
// copy them several times, and quote them in errors. An answer is suspect where a number in it, or a string that may be
// a quantity, stands for more than it has bytes.
func tidy(data []byte) (_ []byte, isSuspect bool, _ error) {
	tidied := data[:0]
	for i := 0; i < len(data); {
		end := i + 1
		switch c := data[i]; {
		case isBlank(c):
			for end < len(data) && isBlank(data[end]) {
				end++
			}
			tidied = append(tidied, ' ')
			i = end
			continue
		case c == '"':
			if end = endOfString(data, i); end-i > maxString {
				return nil, false, fmt.Errorf("it has a string of more than %d MiB", maxString>>20)
			}
			text := bytes.TrimSuffix(data[i+1:end], []byte{'"'})
			isSuspect = isSuspect || isLargeNumber(text) || bytes.Contains(text, []byte(`\u`)) // which may be a digit
		case c == '-' || isDigit(c):
			for end < len(data) && isOfNumber(data[end]) {
				end++
			}
			if end-i > maxNumber {
				return nil, false, fmt.Errorf("it has a number of more than %d characters", maxNumber)
			}
			isSuspect = isSuspect || isLargeNumber(data[i:end])
		}
		tidied = append(tidied, data[i:end]...)
		i = end
	}
	return tidied, isSuspect, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isOfNumber(c byte) bool { return isDigit(c) || bytes.IndexByte([]byte("+-.eE"), c) >= 0 }

// endOfString is where the string that begins at i has ended.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// isLargeNumber reports whether a text may be a quantity, and is longer, or has a larger exponent, than one that an API
// server sends. Names may look so, too.
func isLargeNumber(text []byte) bool {
	if len(text) == 0 || bytes.IndexByte([]byte("+-."), text[0]) < 0 && !isDigit(text[0]) {
		return false
	}
	if len(text) > maxNumber {
		return true
	}
	digits := bytes.TrimLeft(text, "+-.0123456789")
	if len(digits) == 0 || digits[0] != 'e' && digits[0] != 'E' {
		return false
	}
	exponent := bytes.TrimLeft(digits[1:], "+-")
	return len(bytes.TrimLeft(exponent, "0123456789")) == 0 && len(exponent) > maxExponent
}

// named refuses an answer of some length that does not say what it is: decoders quote it in their errors. They do not
// agree on whether letters may be large or small.
func named(data []byte) error {
	if len(data) <= maxProblem {
		return nil
	}
	var one, other kindOf
	if json.Unmarshal(data, &one) != nil || utiljson.Unmarshal(data, &other) != nil {
		return nil // nor does a client read it, and its error quotes nothing
	}
	if one != other || one.Kind == "" || one.APIVersion == "" || len(one.Kind) > maxName || len(one.APIVersion) > maxName {
		return fmt.Errorf("it has more than %d KiB and does not say what kind and version it has", maxProblem>>10)
	}
	return nil
}
