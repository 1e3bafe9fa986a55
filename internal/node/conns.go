package node

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"
)

// owned is a client that this process made. A connection that is being made while rueidis closes a
// client outlives it: it takes the place of one that is already marked as closed. So connections
// are closed here, also those that are dialled after.
type owned struct {
	rueidis.Client
	end context.CancelFunc
}

// newOwned returns a client for a server that this process connects to itself.
func newOwned(o rueidis.ClientOption) (rueidis.Client, error) {
	life, end := context.WithCancel(context.Background())
	if dial := o.DialCtxFn; dial != nil {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			made, err := dial(ctx, addr, d, cfg)
			if err != nil {
				return nil, err
			}
			return &conn{made, context.AfterFunc(life, func() { _ = made.Close() })}, nil
		}
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		end()
		return nil, err
	}
	return &owned{c, end}, nil
}

func (o *owned) Close() {
	o.Client.Close()
	o.end()
}

// conn is a connection of a client that is closed with it.
type conn struct {
	net.Conn
	forget func() bool
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}
