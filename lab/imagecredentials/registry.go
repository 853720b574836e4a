package imagecredentials

import (
	"io"
	"log"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is a registry that gives nothing to a client without the right user and password.
type Registry struct {
	images http.Handler
	user   string

	mu        sync.Mutex
	passwords map[string]bool
	refused   int
	served    map[string]int // by password
}

// NewRegistry makes one that is empty, for a user with one of some passwords.
func NewRegistry(user string, passwords ...string) *Registry {
	r := &Registry{
		images: registry.New(registry.Logger(log.New(io.Discard, "", 0))), user: user,
		passwords: map[string]bool{}, served: map[string]int{},
	}
	for _, p := range passwords {
		r.passwords[p] = true
	}
	return r
}

// ServeHTTP answers a client that has shown its password.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	user, password, _ := request.BasicAuth()
	r.mu.Lock()
	allowed := user == r.user && r.passwords[password]
	if allowed {
		r.served[password]++
	} else {
		r.refused++
	}
	r.mu.Unlock()
	if !allowed {
		w.Header().Set("Www-Authenticate", `Basic realm="images"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
		return
	}
	r.images.ServeHTTP(w, request)
}

// Served is how many requests were answered for a password.
func (r *Registry) Served(password string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served[password]
}

// Refused is how many requests were refused.
func (r *Registry) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
