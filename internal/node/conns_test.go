package node

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// slowConn is a connection whose answers come only once the gate is open.
type slowConn struct {
	net.Conn
	gate   <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (c *slowConn) Read(p []byte) (int, error) {
	<-c.gate
	return c.Conn.Read(p)
}

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A connection that is being made while its client is closed is closed too.
func TestNoConnectionOutlivesItsClient(t *testing.T) {
	server := miniredis.RunT(t)
	open, gate := make(chan struct{}), make(chan struct{})
	close(open)
	dialled := make(chan *slowConn, 8)
	first := true
	client, err := newOwned(safeOption(rueidis.ClientOption{InitAddress: []string{server.Addr()},
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			made, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			c := &slowConn{Conn: made, gate: gate, closed: make(chan struct{})}
			if first { // the others come one at a time, later
				c.gate, first = open, false
			}
			dialled <- c
			return c, nil
		}}))
	if err != nil {
		t.Fatal(err)
	}
	_ = (<-dialled).Conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil && len(dialled) == 0 {
			_ = client.Do(ctx, client.B().Ping().Build()).Error()
		}
	}()
	var second *slowConn
	select {
	case second = <-dialled:
	case <-ctx.Done():
		t.Fatal("it does not connect again")
	}
	client.Close()
	select { // if it was not yet handed over, that closes it a moment later
	case <-second.closed:
	case <-ctx.Done():
		t.Error("the connection that was being made is open")
	}
	cancel()
	close(gate)
	<-ended
}
