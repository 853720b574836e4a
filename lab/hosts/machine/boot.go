package machine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/transplant-dev/transplant/lab/hosts/units"
)

// Socket is where a host's systemctl finds the host's first process.
const Socket = "/run/lab-init/systemctl.sock"

const metadataAddress = "169.254.169.254"

// Boot makes the host and runs its services. It reads one line from in when the host's network is there, and writes one
// to out when the services have been started. It returns when ctx ends, or with the error that keeps the host from
// starting; the process must end then.
func Boot(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	if err := enterRoot(ctx, c); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.HostName)); err != nil {
		return fmt.Errorf("setting host name: %w", err)
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for the host's network: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("turning on forwarding: %w", err)
	}
	if c.Metadata != "" {
		if err := forward(ctx, net.JoinHostPort(metadataAddress, "80"), c.Metadata); err != nil {
			return err
		}
	}
	var r reaper
	r.start() // from here on nothing else may wait for a child
	m := units.NewManager("/", r.launch)
	if err := serve(ctx, m); err != nil {
		return err
	}
	for _, name := range c.Services {
		if err := m.Start(name); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, "started"); err != nil {
		return fmt.Errorf("reporting the start: %w", err)
	}
	<-ctx.Done()
	return nil
}

// forward passes every connection to address on to target, which sees it come from the host.
func forward(ctx context.Context, address, target string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving instance metadata: %w", err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go pass(ctx, conn, target)
		}
	}()
	return nil
}

func pass(ctx context.Context, from net.Conn, target string) {
	defer from.Close() //nolint:errcheck // the other side notices
	to, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // the other side notices
	go func() {
		_, _ = io.Copy(to, from) // either end may go first
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(from, to)
}

// reply is what systemctl prints and how it ends.
type reply struct {
	Out  string `json:"out"`
	Errs string `json:"errs"`
	Code int    `json:"code"`
}

// serve answers systemctl.
func serve(ctx context.Context, m *units.Manager) error {
	if err := os.MkdirAll(filepath.Dir(Socket), 0o755); err != nil {
		return fmt.Errorf("making directory for systemctl: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", Socket)
	if err != nil {
		return fmt.Errorf("serving systemctl: %w", err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, m)
		}
	}()
	return nil
}

func answer(conn net.Conn, m *units.Manager) {
	defer conn.Close() //nolint:errcheck // the client has its answer or is gone
	var args []string
	if json.NewDecoder(conn).Decode(&args) != nil {
		return
	}
	var out, errs bytes.Buffer
	code := m.Systemctl(args, &out, &errs)
	note(args, code)
	_ = json.NewEncoder(conn).Encode(reply{out.String(), errs.String(), code}) // the client may be gone
}

// note keeps a record of what was asked of the services, for people.
func note(args []string, code int) {
	f, err := os.OpenFile("/var/log/systemctl.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // a lost line harms nobody
	fmt.Fprintf(f, "%s %q: %d\n", time.Now().UTC().Format(time.RFC3339Nano), args, code)
}

// Systemctl asks the host's first process and returns the exit code.
func Systemctl(ctx context.Context, args []string, out, errs io.Writer) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", Socket)
	if err != nil {
		return 1, fmt.Errorf("reaching the host's service manager: %w", err)
	}
	defer conn.Close() //nolint:errcheck // the answer is here
	if err := json.NewEncoder(conn).Encode(args); err != nil {
		return 1, fmt.Errorf("asking the host's service manager: %w", err)
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return 1, fmt.Errorf("asking the host's service manager: %w", err)
	}
	_, err = io.WriteString(out, r.Out)
	_, problem := io.WriteString(errs, r.Errs)
	return r.Code, errors.Join(err, problem)
}
