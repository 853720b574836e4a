package mask

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"
)

// TestRandomWordsAreFound measures how many made by chance are found.
func TestRandomWordsAreFound(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	for _, bytes := range []int{24, 30, 32, 48, 64} {
		found, tries := 0, 2000
		for range tries {
			b := make([]byte, bytes)
			_, _ = r.Read(b)
			if Text("key of no name: "+base64.StdEncoding.EncodeToString(b)) != "key of no name: "+base64.StdEncoding.EncodeToString(b) {
				found++
			}
		}
		t.Logf("of %d words of %d random bytes in base64, %d are masked", tries, bytes, found)
		if found < tries*95/100 {
			t.Errorf("%d bytes: %d of %d", bytes, found, tries)
		}
	}
}
