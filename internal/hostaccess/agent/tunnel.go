package agent

import (
	"io"
	"net"
	"net/http"
	"time"
)

// dialTimeout bounds a connection from the host: what it reaches is on the host itself, or near it.
const dialTimeout = 10 * time.Second

// dial connects to an address from the host, and carries bytes both ways until either side ends.
func (a *Agent) dial(w http.ResponseWriter, r *http.Request) {
	network, address := r.URL.Query().Get("network"), r.URL.Query().Get("address")
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		http.Error(w, "only tcp is carried", http.StatusBadRequest)
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(r.Context(), network, address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write(encodeAnswer(Answer{Error: encodeError(err, a.Root)}))
		return
	}
	defer conn.Close() //nolint:errcheck // what was written has been answered, or never will be
	flush := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if flush.Flush() != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(conn, r.Body)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	go func() { // a client that is gone closes the request; nothing more will be read
		<-r.Context().Done()
		_ = conn.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if flush.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
