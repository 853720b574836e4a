package web

import "net/http"

type server struct{ Options }

func newServer(o Options) *server { return &server{Options: o} }

func (s *server) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the page is not built yet", http.StatusNotImplemented)
}
