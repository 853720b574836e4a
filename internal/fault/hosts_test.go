//go:build faults

package fault

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// throughKubelet is a host of which only what is optional matters.
type throughKubelet struct {
	hostaccess.Host
	dialled, guarded, tried int
}

func (h *throughKubelet) Name() string { return "cp-1" }

func (h *throughKubelet) DialContext(context.Context, string, string) (net.Conn, error) {
	h.dialled++
	return nil, errors.New("refused")
}

func (h *throughKubelet) RestartKubeletGuarded(context.Context, []hostaccess.GuardedFile) error {
	h.guarded++
	return nil
}

func (h *throughKubelet) TryImage(context.Context, string, []string) error {
	h.tried++
	return nil
}

func TestAFaultyHostOffersWhatTheRealOneOffers(t *testing.T) {
	dir := t.TempDir()
	inner := &throughKubelet{}
	h := faulty(inner, dir)
	dialer, ok := h.(hostaccess.Dialer)
	guard, guards := h.(hostaccess.KubeletGuard)
	if !ok || !guards {
		t.Fatalf("%T hides what is optional", h)
	}
	if _, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil || inner.dialled != 1 {
		t.Errorf("dialled %d times: %v", inner.dialled, err)
	}
	if err := guard.RestartKubeletGuarded(t.Context(), nil); err != nil || inner.guarded != 1 {
		t.Errorf("guarded %d times: %v", inner.guarded, err)
	}
	if trier, ok := h.(hostaccess.ImageTrier); !ok || trier.TryImage(t.Context(), "x", nil) != nil || inner.tried != 1 {
		t.Errorf("an image was tried %d times", inner.tried)
	}
	if err := os.WriteFile(filepath.Join(dir, "lost-cp-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := guard.RestartKubeletGuarded(t.Context(), nil); !hostaccess.IsUnreachable(err) || inner.guarded != 1 {
		t.Errorf("a lost host was reached: %v", err)
	}
	if _, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:1"); !hostaccess.IsUnreachable(err) || inner.dialled != 1 {
		t.Errorf("a lost host was dialled: %v", err)
	}
	if _, ok := faulty(struct{ hostaccess.Host }{}, dir).(hostaccess.Dialer); ok {
		t.Error("a host that cannot be dialled says that it can")
	}
}
