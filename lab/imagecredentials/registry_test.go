package imagecredentials

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestAnImageIsPulledWithTheCredentialsThatAProgramGave: of each program, what it answers is what its registry takes, and nothing else is.
func TestAnImageIsPulledWithTheCredentialsThatAProgramGave(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		images := NewRegistry(c.user, c.password)
		// Azure's registry has its token service at the same host.
		tokens, _, _ := c.net.lookup(c.host)
		c.net.Handle(c.host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tokens != nil && r.UserAgent() == "kubernetes-credentialprovider-acr" {
				tokens.ServeHTTP(w, r)
				return
			}
			images.ServeHTTP(w, r)
		}))
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte("\x7fELF"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Push(t.Context(), c.net, c.image, program, c.user, c.password); err != nil {
			t.Fatal(err)
		}
		response, said, err := Ask(t.Context(), c.program, c.request(c.image))
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		given := response.Auth[c.host]
		for _, pull := range []struct {
			user, password string
			want           int
		}{{given.Username, given.Password, http.StatusOK}, {given.Username, "another", http.StatusUnauthorized}, {"", "", http.StatusUnauthorized}} {
			transport, err := c.net.transport()
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.host+"/v2/project/app/manifests/v1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if pull.user != "" {
				request.SetBasicAuth(pull.user, pull.password)
			}
			answer, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != pull.want {
				t.Errorf("with user %q the image is answered with %s", pull.user, answer.Status)
			}
		}
		if images.Refused() < 2 || images.Served(c.password) == 0 {
			t.Errorf("%d requests were refused, %d answered", images.Refused(), images.Served(c.password))
		}
	})
}
