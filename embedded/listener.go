package embedded

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2/server"
)

// listener accepts connections for a server until it is cut.
type listener struct {
	net.Listener
	accepted chan struct{} // closed when no more are accepted
	hangUp   context.CancelFunc
}

// conn is a connection that is closed when its listener is cut.
type conn struct {
	net.Conn
	forget func() bool
}

// listen has the server serve the connections of l.
func listen(l net.Listener, s *server.Server) *listener {
	ctx, hangUp := context.WithCancel(context.Background())
	own := &listener{Listener: l, accepted: make(chan struct{}), hangUp: hangUp}
	go func() {
		defer close(own.accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.ServeConn(&conn{c, context.AfterFunc(ctx, func() { _ = c.Close() })})
		}
	}()
	return own
}

// cut refuses new connections, and has those there are closed.
func (l *listener) cut() {
	_ = l.Close()
	<-l.accepted
	l.hangUp()
}

// Close is called by the server when the connection has ended.
func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}
