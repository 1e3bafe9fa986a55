package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// owned is a client that this process made. A connection that is being made while rueidis closes a
// client outlives it: it takes the place of one that is already marked as closed. So connections
// are closed here, also those that are dialled after.
type owned struct {
	rueidis.Client
	mu     sync.Mutex
	closed bool
	conns  map[*conn]bool
}

// newOwned returns a client for a server that this process connects to itself. Each connection that
// it makes is told to dialled.
func newOwned(option rueidis.ClientOption, dialled func()) (_ rueidis.Client, err error) {
	o := &owned{conns: make(map[*conn]bool)}
	if dial := option.DialCtxFn; dial != nil {
		option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			made, err := dial(ctx, addr, d, cfg)
			if err != nil {
				return nil, err
			}
			dialled()
			return o.own(made), nil
		}
	}
	if o.Client, err = rueidis.NewClient(option); err != nil {
		return nil, err
	}
	return o, nil
}

// own returns the connection as one of the client. Of a client that was closed it is closed.
func (o *owned) own(made net.Conn) net.Conn {
	c := &conn{Conn: made, of: o}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		_ = made.Close()
	} else {
		o.conns[c] = true
	}
	return c
}

// hangUp closes all connections. The next call dials anew, and may reach another server.
func (o *owned) hangUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		go c.Conn.Close() // under TLS that may take seconds
	}
	clear(o.conns)
}

// Close closes the client and its connections.
func (o *owned) Close() {
	o.Client.Close()
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.hangUp()
}

// conn is a connection of a client that is closed with it.
type conn struct {
	net.Conn
	of    *owned
	spoke atomic.Bool // this process has said something
	heard atomic.Bool // the server has
}

// lastWord is how long a server that ends a connection is listened to.
const lastWord = 100 * time.Millisecond

var errWantsTLS = errors.New("the server answers with an alert of TLS")

// unasked is what a server says that has no connection left, before it hangs up.
var unasked = []byte("-ERR max number of clients")

// Read returns an error for an alert of TLS, and for words of a server that nobody asked for:
// rueidis would take them for a reply, and panic if it has asked nothing yet.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
		switch said := b[:n]; {
		case bytes.HasPrefix(said, []byte{0x15, 0x03}):
			return 0, errWantsTLS
		case !c.spoke.Load() || bytes.HasPrefix(said, unasked):
			line, _, _ := bytes.Cut(said, []byte("\r"))
			refusal := fmt.Errorf("the server refuses the connection: %.100q", bytes.TrimPrefix(line, []byte("-")))
			return 0, &net.OpError{Op: "dial", Net: c.RemoteAddr().Network(), Err: refusal} // nothing was executed
		}
	}
	return n, err
}

// Write writes. A server may refuse the certificate of a client that has spoken already.
func (c *conn) Write(b []byte) (int, error) {
	c.spoke.Store(true)
	n, err := c.Conn.Write(b)
	if err != nil && !c.heard.Load() {
		_ = c.SetReadDeadline(time.Now().Add(lastWord))
		if _, last := c.Conn.Read(make([]byte, 1)); refusesCertificate(last) {
			err = last
		}
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
