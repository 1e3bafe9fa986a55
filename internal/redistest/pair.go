package redistest

import (
	"net"
	"sync"
	"time"
)

const (
	chunkSize   = 32 << 10
	chunksAhead = 64 // replies a delay may hold before the server is slowed down
)

// pair is one connection through a Proxy.
type pair struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn
	once   sync.Once
	gone   chan struct{} // closed by close
	lost   bool          // a reply vanished; guarded by proxy.mu
}

// reply is bytes of the server and when they came.
type reply struct {
	bytes []byte
	at    time.Time
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

func (c *pair) carryRequests() {
	defer c.close()
	buf := make([]byte, chunkSize)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if !c.pass() {
				return
			}
			if _, err := c.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// carryReplies reads replies and has another goroutine write them when they are
// due, so that a delay adds latency and does not limit the throughput.
func (c *pair) carryReplies() {
	defer c.close()
	due := make(chan reply, chunksAhead)
	var wg sync.WaitGroup
	wg.Go(func() { c.deliver(due) })
	defer wg.Wait()
	defer close(due)
	for {
		buf := make([]byte, chunkSize)
		n, err := c.server.Read(buf)
		if n > 0 && !c.dropped(n) {
			select {
			case due <- reply{buf[:n], time.Now()}:
			case <-c.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// dropped decides whether the n bytes just read from the server vanish. From
// the first that do, all later ones of the connection do.
func (c *pair) dropped(n int) bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.proxy.drop {
		c.lost = true
	}
	if c.lost {
		c.proxy.dropped += int64(n)
	}
	return c.lost
}

func (c *pair) deliver(due <-chan reply) {
	defer c.close()
	for r := range due {
		if !c.ripe(r.at) || !c.pass() {
			return
		}
		if _, err := c.client.Write(r.bytes); err != nil {
			return
		}
	}
}

// ripe waits until a reply that came at the given time may arrive, by the delay
// in force, and reports whether the connection still lives.
func (c *pair) ripe(at time.Time) bool {
	for {
		c.proxy.mu.Lock()
		wait, changed := time.Until(at.Add(c.proxy.delay)), c.proxy.changed
		c.proxy.mu.Unlock()
		if wait <= 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-c.gone:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
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
