package web

import (
	"embed"
	"net/http"
	"path"
)

// The page: one document, one script, one style sheet and an icon, from this host alone.
//
//go:embed assets
var assets embed.FS

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

func (s *server) page(w http.ResponseWriter, _ *http.Request) { s.embedded(w, "index.html") }

func (s *server) asset(w http.ResponseWriter, r *http.Request) { s.embedded(w, r.PathValue("name")) }

func (s *server) embedded(w http.ResponseWriter, name string) {
	data, err := assets.ReadFile(path.Join("assets", path.Base(name)))
	if err != nil {
		s.writeError(w, &refusal{http.StatusNotFound, "there is nothing here"})
		return
	}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	_, _ = w.Write(data) // the client is gone
}
