package pod

import (
	"errors"
	"io"
	"net"
	"time"
)

// conn is a connection made of a session's output and input. It has no deadlines: the HTTP/2 connection on it asks whether the other end is still there.
type conn struct {
	io.Reader
	io.Writer
	closing func()
}

// far is the session's end of it.
type far struct {
	in  io.Reader
	out *io.PipeWriter
	// close ends both directions.
	close func()
}

func newConn() (net.Conn, far) {
	fromPod, toUs := io.Pipe()
	toPod, fromUs := io.Pipe()
	end := func() {
		_ = toUs.Close()
		_ = fromUs.Close()
		_ = toPod.Close()
		_ = fromPod.Close()
	}
	return &conn{Reader: fromPod, Writer: fromUs, closing: end}, far{in: endable{toPod}, out: toUs, close: end}
}

// endable ends like a file: that this side closed it is no error of the session's.
type endable struct{ io.Reader }

func (e endable) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Close() error {
	c.closing()
	return nil
}

type address struct{}

func (address) Network() string { return "exec" }
func (address) String() string  { return "agent" }

func (*conn) LocalAddr() net.Addr              { return address{} }
func (*conn) RemoteAddr() net.Addr             { return address{} }
func (*conn) SetDeadline(time.Time) error      { return nil }
func (*conn) SetReadDeadline(time.Time) error  { return nil }
func (*conn) SetWriteDeadline(time.Time) error { return nil }
