package redistest

import (
	"net"
	"sync"
)

const chunkSize = 32 << 10

// pair is one connection through a Proxy.
type pair struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn
	once   sync.Once
	gone   chan struct{} // closed by close
	lost   bool          // a reply vanished; guarded by proxy.mu
}

func (c *pair) close() {
	c.once.Do(func() {
		close(c.gone)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

func (c *pair) lossy() bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	return c.lost
}

// carry passes on what comes from one end, as far as wanted says so.
func (c *pair) carry(to, from net.Conn, wanted func(n int) bool) {
	defer c.close()
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		if n > 0 && wanted(n) {
			if !c.pass() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// heard decides whether the n bytes just read from the server are passed on, or vanish. From the
// first that vanish, all later ones of the connection do.
func (c *pair) heard(n int) bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.proxy.drop {
		c.lost = true
	}
	if c.lost {
		c.proxy.dropped += int64(n)
	}
	return !c.lost
}

// pass waits while the proxy stalls and reports whether the connection lives.
func (c *pair) pass() bool {
	for {
		c.proxy.mu.Lock()
		stall, changed := c.proxy.stall, c.proxy.changed
		c.proxy.mu.Unlock()
		if !stall {
			return true
		}
		select {
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}
