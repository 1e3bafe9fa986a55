package node

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// owned is a client that this process made. A connection that is being made while rueidis closes a
// client outlives it: it takes the place of one that is already marked as closed. So connections
// are closed here.
type owned struct {
	rueidis.Client
	conns *conns
}

// newOwned returns a client for a server that this process connects to itself.
func newOwned(o rueidis.ClientOption) (rueidis.Client, error) {
	set := &conns{open: make(map[*conn]struct{})}
	if o.DialCtxFn != nil {
		o.DialCtxFn = set.dial(o.DialCtxFn)
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		set.close()
		return nil, err
	}
	return &owned{c, set}, nil
}

func (o *owned) Close() {
	o.Client.Close()
	o.conns.close()
}

// conns are the open connections of one client.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{} // nil once the client is closed
}

type conn struct {
	net.Conn
	of *conns
}

// dial returns inner with its connections among those of the set.
func (s *conns) dial(inner dialFunc) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		made, err := inner(ctx, addr, d, cfg)
		if err != nil {
			return nil, err
		}
		c := &conn{made, s}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == nil {
			_ = made.Close()
			return nil, errClosed
		}
		s.open[c] = struct{}{}
		return c, nil
	}
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes what is open, and what is dialled after.
func (s *conns) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
}
