package embedded

import (
	"fmt"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// listener accepts connections for a server until it is cut.
type listener struct {
	net.Listener
	server *server.Server
	done   chan struct{} // closed when accept has ended

	mu    sync.Mutex
	ended bool
	conns map[*conn]struct{}
}

// conn is a connection its listener knows of.
type conn struct {
	net.Conn
	listener *listener
}

// listen has the server serve the connections of l.
func listen(l net.Listener, s *server.Server) *listener {
	own := &listener{Listener: l, server: s, done: make(chan struct{}), conns: map[*conn]struct{}{}}
	go own.accept()
	return own
}

// port is a port of this machine.
func port(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return l, nil
}

func (l *listener) accept() {
	defer close(l.done)
	for {
		accepted, err := l.Accept()
		if err != nil {
			return
		}
		c := &conn{accepted, l}
		if l.add(c) {
			l.server.ServeConn(c)
		} else {
			_ = accepted.Close()
		}
	}
}

func (l *listener) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.conns[c] = struct{}{}
	}
	return !l.ended
}

// cut refuses new connections, closes those there are, and returns when no more
// can reach the server.
func (l *listener) cut() {
	l.mu.Lock()
	l.ended = true
	conns := l.conns
	l.conns = map[*conn]struct{}{}
	l.mu.Unlock()
	_ = l.Close()
	for c := range conns {
		_ = c.Conn.Close()
	}
	<-l.done
}

// Close is called by the server when the connection has ended.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
