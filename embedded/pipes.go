package embedded

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
)

// pipes is how clients of this process reach a node that has no port.
type pipes struct {
	current atomic.Pointer[entrance] // nil or closed: there is no node
}

// entrance accepts connections until it is closed. It is a net.Listener.
type entrance struct {
	incoming chan net.Conn
	open     context.Context
	close    context.CancelFunc
}

// listen makes a new entrance the one to which connections go.
func (p *pipes) listen() (net.Listener, error) {
	e := &entrance{incoming: make(chan net.Conn)}
	e.open, e.close = context.WithCancel(context.Background())
	p.current.Store(e)
	return e, nil
}

// dial connects to the node. It is for rueidis.ClientOption.DialCtxFn.
func (p *pipes) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	e := p.current.Load()
	ours, theirs := net.Pipe()
	select {
	case e.incoming <- theirs:
		return ours, nil
	case <-e.open.Done():
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: &net.UnixAddr{Name: addr, Net: "pipe"},
			Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (e *entrance) Accept() (net.Conn, error) {
	select {
	case c := <-e.incoming:
		return c, nil
	case <-e.open.Done():
		return nil, net.ErrClosed
	}
}

// Close refuses connections from now on.
func (e *entrance) Close() error {
	e.close()
	return nil
}

// Addr tells nothing: the node knows its name.
func (e *entrance) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }
