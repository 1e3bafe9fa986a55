package fleet

import (
	"net"
	"sync"
	"time"
)

const (
	distanceChunk = 16 << 10 // bytes read at once
	distanceAhead = 256      // chunks on their way at once
)

// distantConn is a connection over which everything arrives later, without
// limiting the throughput: a longer cable. Deadlines of reads count from when the
// bytes are here.
type distantConn struct {
	net.Conn
	delay time.Duration
	once  sync.Once
	gone  chan struct{} // closed by Close
	way   chan chunk    // closed when nothing more comes
	left  []byte        // of the chunk that has arrived
	err   error         // why nothing more comes; set before way is closed
}

// chunk is bytes that are on their way.
type chunk struct {
	bytes []byte
	sent  time.Time
}

// delayed puts the server at the other end farther away. nil stays nil.
func delayed(conn net.Conn, by time.Duration) net.Conn {
	if conn == nil || by <= 0 {
		return conn
	}
	c := &distantConn{Conn: conn, delay: by, gone: make(chan struct{}), way: make(chan chunk, distanceAhead)}
	go c.pull()
	return c
}

func (c *distantConn) pull() {
	defer close(c.way)
	for {
		buf := make([]byte, distanceChunk)
		n, err := c.Conn.Read(buf)
		if n > 0 {
			select {
			case c.way <- chunk{buf[:n], time.Now()}:
			case <-c.gone:
			}
		}
		if err != nil {
			c.err = err
			return
		}
	}
}

// Read is for one goroutine, as Redis clients do.
func (c *distantConn) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		next, ok := <-c.way
		if !ok {
			return 0, c.err
		}
		timer := time.NewTimer(time.Until(next.sent.Add(c.delay)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.gone:
			return 0, net.ErrClosed
		}
		c.left = next.bytes
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// SetReadDeadline does nothing: pull reads ahead, and an idle connection is no error.
func (c *distantConn) SetReadDeadline(time.Time) error { return nil }

// SetDeadline sets that of writes.
func (c *distantConn) SetDeadline(t time.Time) error { return c.SetWriteDeadline(t) }

// Close ends the connection and everything that is on its way.
func (c *distantConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}
