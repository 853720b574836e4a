package vsphere

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/transplant-dev/transplant/provider/vsphere/client"
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

// TestMetadataOfAMachineRanksEachAddressOnceToABound: a machine with 64 KiB of addresses would slow the look at all others.
func TestMetadataOfAMachineRanksEachAddressOnceToABound(t *testing.T) {
	text := "network:\n  ethernets:\n    a:\n      addresses: [10.0.0.9/24, 10.0.0.9/16, no address, '::ffff:10.0.0.9', 10.0.0.7/24"
	for i := range 2000 {
		text += fmt.Sprintf(", 10.1.%d.%d/16", i/200, i%200)
	}
	m := &client.Machine{
		NICs:     []types.GuestNicInfo{nic("a", "10.0.0.5", "10.1.1.54", "10.1.1.53", "10.1.0.0", "10.0.0.7", "10.0.0.9")},
		Metadata: base64.StdEncoding.EncodeToString([]byte(text + "]\n")), MetadataEncoding: "base64",
	}
	const want = "10.0.0.9, 10.0.0.7, 10.1.0.0, 10.1.1.53, 10.0.0.5, 10.1.1.54" // the one before the last two is the 256th
	if have := texts(candidates(m)); have != want {
		t.Errorf("the order is %s, want %s", have, want)
	}
}

func TestMetadataThatGrowsByItsAliasesNamesNoAddress(t *testing.T) {
	const start = "network:\n  ethernets:\n    a:\n      addresses: [10.0.0.1/24]\n"
	grown := start + "a: &a " + strings.Repeat("x", 30<<10) + "\nb: [" + strings.Repeat("*a, ", 100) + "]\n"
	few := start + "a: &a " + strings.Repeat("x", 1<<10) + "\nb: [*a, *a]\n"
	packed := func(network string) string {
		return "network: " + base64.StdEncoding.EncodeToString([]byte(network)) + "\nnetwork.encoding: base64\n"
	}
	inner := func(text string) string {
		return strings.ReplaceAll(strings.TrimPrefix(text, "network:\n"), "\n  ", "\n")
	}
	for name, test := range map[string]struct {
		text string
		want int
	}{
		"few":          {few, 1},
		"many":         {grown, 0},
		"few, packed":  {packed(strings.TrimPrefix(inner(few), "  ")), 1},
		"many, packed": {packed(strings.TrimPrefix(inner(grown), "  ")), 0},
	} {
		if have := staticAddresses(base64.StdEncoding.EncodeToString([]byte(test.text)), "base64"); len(have) != test.want {
			t.Errorf("%s: %v, want %d addresses", name, have, test.want)
		}
	}
}
