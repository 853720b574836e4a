package mask_test

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/mask"
)

func TestAQueryIsMaskedAlsoAsJSONWritesIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"url":"https://x.example.com/c?sv=2020\u0026sig=hunter2hunter\u0026se=2030"}`: `{"url":"https://x.example.com/c?sv=2020\u0026sig=(masked)"}`,
		`{"url":"https://x.example.com/c\u003fsig=hunter2hunter"}`:                      `{"url":"https://x.example.com/c\u003fsig=(masked)"}`,
	} {
		if got := mask.Text(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
