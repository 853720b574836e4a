package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// relayWait is how long a relay waits for an agent that is just starting.
const relayWait = 15 * time.Second

// Relay joins a session's standard input and output to the agent's socket, until either ends.
func Relay(ctx context.Context, socket string, in io.Reader, out io.Writer) error {
	conn, err := connect(ctx, socket)
	if err != nil {
		return fmt.Errorf("reaching the agent: %w", err)
	}
	defer conn.Close() //nolint:errcheck // both directions have ended
	ends := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, in)
		ends <- err
	}()
	go func() {
		_, err := io.Copy(out, conn)
		ends <- err
	}()
	select {
	case err = <-ends: // an HTTP/2 connection of which one direction has ended is over
	case <-ctx.Done():
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("relaying: %w", err)
	}
	return nil
}

func connect(ctx context.Context, socket string) (net.Conn, error) {
	end := time.Now().Add(relayWait)
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil || time.Now().After(end) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
