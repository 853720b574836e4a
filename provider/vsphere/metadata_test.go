package vsphere

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
)

// TestMetadataOfAMachineIsReadToABound, in both encodings: its administrator may be another one.
func TestMetadataOfAMachineIsReadToABound(t *testing.T) {
	const start = "network:\n  ethernets:\n    a:\n      addresses: [10.0.0.1/24]\n#"
	for size, want := range map[int]int{maxMetadata: 1, maxMetadata + 1: 0, 16 * maxMetadata: 0} {
		text := start + strings.Repeat("x", size-len(start))
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for encoding, metadata := range map[string][]byte{"base64": []byte(text), "gzip+base64": packed.Bytes()} {
			if have := staticAddresses(base64.StdEncoding.EncodeToString(metadata), encoding); len(have) != want {
				t.Errorf("%s of %d bytes: %v, want %d addresses", encoding, size, have, want)
			}
		}
	}
}
