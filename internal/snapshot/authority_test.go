package snapshot

import (
	"encoding/pem"
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
)

func TestTheCertificatesOfABundle(t *testing.T) {
	t.Parallel()
	block := func(kind, content string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(content)}))
	}
	one, two := hostaccess.SHA256([]byte("one")), hostaccess.SHA256([]byte("two"))
	both := []string{one, two}
	slices.Sort(both)
	for name, c := range map[string]struct {
		bundle string
		want   []string
	}{
		"two that are rotated, one of them twice": {block("CERTIFICATE", "two") + block("CERTIFICATE", "one") + block("CERTIFICATE", "two"), both},
		"a key next to it":                        {block("PRIVATE KEY", "secret") + block("CERTIFICATE", "one"), []string{one}},
		"no certificate":                          {"nothing", nil},
		"nothing":                                 {"", nil},
	} {
		if have := host.Certificates([]byte(c.bundle)); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}
