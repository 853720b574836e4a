package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// hook is the socket on which the command says where it is, and waits to be let go.
type hook struct {
	dir      string
	listener net.Listener
	wg       sync.WaitGroup
}

// reached decides what happens to a command at a point of a step: true lets it go on, false kills it.
type reached func(ctx context.Context, point, step string) bool

// newHook listens in a directory of its own, whose path is short enough for a socket's.
func newHook(ctx context.Context, f reached) (*hook, error) {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return nil, fmt.Errorf("making a place for the test's socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "hook"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for the command: %w", err), os.RemoveAll(dir))
	}
	h := &hook{dir: dir, listener: l}
	h.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { answer(ctx, conn, f) })
		}
	})
	return h, nil
}

// answer serves one question.
func answer(ctx context.Context, conn net.Conn, f reached) {
	defer conn.Close() //nolint:errcheck // its end is an answer too
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	point, step, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
	if f(ctx, point, step) {
		fmt.Fprintln(conn, "go on") // a command that has died meanwhile does not read it
	}
}

// env is what the command needs to find the hook.
func (h *hook) env() string { return "TRANSPLANT_TEST_HOOK=" + filepath.Join(h.dir, "hook") }

func (h *hook) close() {
	_ = h.listener.Close()
	h.wg.Wait()
	_ = os.RemoveAll(h.dir) // a temporary directory
}
