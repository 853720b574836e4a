package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// resolveFor is how long the addresses of a name are kept: load balancers' names live for 60 s.
const resolveFor = 30 * time.Second

// minAttempt is what an address gets at least of the time for a look at a name with several.
const minAttempt = 300 * time.Millisecond

// Dialer looks at targets. The zero value is ready.
type Dialer struct {
	// Dial and Resolve are the system's when nil.
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Resolve func(ctx context.Context, host string) ([]string, error)
	// ConnectTo has other addresses than those that targets name.
	ConnectTo ConnectTo

	mu    sync.Mutex
	names map[string]*name
	http  *http.Client
}

// ConnectTo is where to connect to instead of an address: host:port by host:port, or by a host for all of its ports. A
// port that is empty is that of the target.
type ConnectTo map[string]string

// ParseConnectTo reads pairs of the form HOST[:PORT]=ADDRESS[:PORT].
func ParseConnectTo(pairs []string) (ConnectTo, error) {
	out := ConnectTo{}
	for _, pair := range pairs {
		from, to, _ := strings.Cut(pair, "=")
		fromHost, fromPort, fromErr := hostAndPort(from)
		toHost, toPort, toErr := hostAndPort(to)
		if fromErr != nil || toErr != nil {
			return nil, fmt.Errorf("connecting to %q: give HOST[:PORT]=ADDRESS[:PORT], such as lb.example.com=127.0.0.1:8080", pair)
		}
		key := net.JoinHostPort(fromHost, fromPort)
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("connecting to %q: %s is given twice", pair, from)
		}
		out[key] = net.JoinHostPort(toHost, toPort)
	}
	return out, nil
}

// hostAndPort takes an address apart whose port may be missing.
func hostAndPort(s string) (host, port string, err error) {
	switch inside := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"); {
	case net.ParseIP(inside) != nil && len(inside) != len(s)-1:
		return inside, "", nil
	case strings.Contains(s, ":"):
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", "", err
		}
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "", "", fmt.Errorf("port %q", port)
		}
	default:
		host = s
	}
	if host == "" || strings.ContainsAny(host, "/@= ") {
		return "", "", fmt.Errorf("host %q", host)
	}
	return strings.ToLower(host), port, nil
}

// dialAddress returns where to connect to for an address.
func (c ConnectTo) dialAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || len(c) == 0 {
		return address
	}
	host = strings.ToLower(host)
	to, ok := c[net.JoinHostPort(host, port)]
	if !ok {
		to, ok = c[net.JoinHostPort(host, "")]
	}
	if !ok {
		return address
	}
	if toHost, toPort, err := net.SplitHostPort(to); err == nil && toPort == "" {
		return net.JoinHostPort(toHost, port)
	}
	return to
}

// name is a host and its addresses.
type name struct {
	mu        sync.Mutex
	addresses []string
	asked     time.Time
	turn      int
}

// Look connects to a target once. A TCP connection that is accepted is closed at once. A GET that is answered with a
// status below 500 is good.
func (d *Dialer) Look(ctx context.Context, t Target) error {
	if t.Kind == v1.PathHTTP {
		return d.get(ctx, t.Address)
	}
	conn, err := d.connect(ctx, "tcp", t.Address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// connect tries the addresses of a name in turn until one answers, as clients do.
func (d *Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(d.ConnectTo.dialAddress(address))
	if err != nil {
		return nil, err
	}
	addresses, first, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var errs []error
	for i := range addresses {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && len(addresses) > 1 {
			attempt, cancel = context.WithTimeout(ctx, max(minAttempt, time.Until(end)/time.Duration(len(addresses)-i)))
		}
		conn, err := dial(attempt, network, net.JoinHostPort(addresses[(first+i)%len(addresses)], port))
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// resolve returns the addresses of a host, and which of them is to be tried first: each look begins with another one.
// Addresses that cannot be asked for again are kept: a client that knows them goes on connecting.
func (d *Dialer) resolve(ctx context.Context, host string) ([]string, int, error) {
	if net.ParseIP(host) != nil {
		return []string{host}, 0, nil
	}
	d.mu.Lock()
	if d.names == nil {
		d.names = map[string]*name{}
	}
	n := d.names[host]
	if n == nil {
		n = &name{}
		d.names[host] = n
	}
	d.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.addresses) == 0 || time.Since(n.asked) >= resolveFor {
		resolve := d.Resolve
		if resolve == nil {
			resolve = net.DefaultResolver.LookupHost
		}
		addresses, err := resolve(ctx, host)
		switch {
		case err == nil && len(addresses) > 0:
			n.addresses, n.asked = addresses, time.Now()
		case len(n.addresses) == 0 && err == nil:
			return nil, 0, fmt.Errorf("%s has no address", host)
		case len(n.addresses) == 0:
			return nil, 0, err
		}
	}
	n.turn++
	return n.addresses, n.turn % len(n.addresses), nil
}

func (d *Dialer) get(ctx context.Context, url string) error {
	d.mu.Lock()
	if d.http == nil {
		d.http = &http.Client{
			// a connection of its own each time, as a new client has it
			Transport:     &http.Transport{DisableKeepAlives: true, DialContext: d.connect},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	client := d.http
	d.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
