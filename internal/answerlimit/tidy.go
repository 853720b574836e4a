package answerlimit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxString is what a string of an answer may have. The annotations of an object have 256 KiB, which escapes make six
	// times as long.
	maxString = 2 << 20
	// maxNumber is what a number may have.
	maxNumber = 64
	// maxName is what a kind, a version or the type of an event may have.
	maxName = 256
)

// tidy makes one blank of each run of them, and writes into data. It refuses tokens that no API server sends: decoders
// copy them several times, and quote them in errors.
func tidy(data []byte) ([]byte, error) {
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
				return nil, fmt.Errorf("it has a string of more than %d MiB", maxString>>20)
			}
		case c == '-' || isDigit(c):
			for end < len(data) && isOfNumber(data[end]) {
				end++
			}
			if end-i > maxNumber {
				return nil, fmt.Errorf("it has a number of more than %d characters", maxNumber)
			}
		}
		tidied = append(tidied, data[i:end]...)
		i = end
	}
	return tidied, nil
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

// checkTypeMeta refuses an answer of some length that does not say what it is: decoders quote it in their errors. They
// do not agree on whether letters may be large or small.
func checkTypeMeta(data []byte) error {
	if len(data) <= maxProblem {
		return nil
	}
	var one, other struct {
		APIVersion json.RawMessage `json:"apiVersion"`
		Kind       json.RawMessage `json:"kind"`
	}
	if json.Unmarshal(data, &one) != nil || utiljson.Unmarshal(data, &other) != nil {
		return nil // nor does a client read it, and its error quotes nothing
	}
	var kind, version string
	isSaid := bytes.Equal(one.Kind, other.Kind) && bytes.Equal(one.APIVersion, other.APIVersion) &&
		len(one.Kind) <= maxName && len(one.APIVersion) <= maxName &&
		json.Unmarshal(one.Kind, &kind) == nil && json.Unmarshal(one.APIVersion, &version) == nil
	if gv, err := schema.ParseGroupVersion(version); !isSaid || kind == "" || err != nil || gv.Version == "" {
		return fmt.Errorf("it has more than %d KiB and does not say what kind and version it has", maxProblem>>10)
	}
	return nil
}
