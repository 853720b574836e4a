package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestPlainPortsTakeLittle: any pod of the seed may open them, and the process has 512Mi for all clusters.
func TestPlainPortsTakeLittle(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- plain(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	for size, want := range map[int]int{100: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X", strings.Repeat("x", size))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("a header of %d bytes: status %d, the connection is closed: %v", size, resp.StatusCode, resp.Close)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
