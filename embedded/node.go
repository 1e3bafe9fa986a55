package embedded

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// drainTimeout bounds the wait for commands that had begun when the node was
// stopped. Only one that blocks by design, such as BLPOP, takes that long.
const drainTimeout = time.Second

// node is a miniredis behind a listener of our own. Closing and restarting the
// one of miniredis itself would not do: a script that runs while it is closed
// meets a server that is nil, and panics.
type node struct {
	addr  string
	pipes *pipes // nil: it listens on a port

	mu       sync.Mutex // held over a whole stop, resume, lose or close
	redis    *miniredis.Miniredis
	listener *listener // nil while stopped
	closed   bool
}

func startNode() (*node, error) {
	redis, err := newRedis()
	if err != nil {
		return nil, err
	}
	l, err := port("127.0.0.1:0")
	if err != nil {
		redis.Close()
		return nil, err
	}
	return &node{addr: l.Addr().String(), redis: redis, listener: listen(l, redis.Server())}, nil
}

// startInMemory starts a node that only this process can reach.
func startInMemory(addr string) (*node, error) {
	redis, err := newRedis()
	if err != nil {
		return nil, err
	}
	n := &node{addr: addr, redis: redis, pipes: &pipes{}}
	n.listener = listen(n.pipes.open(), redis.Server())
	return n, nil
}

// newRedis returns an empty miniredis that listens nowhere.
func newRedis() (*miniredis.Miniredis, error) {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // otherwise nothing ever expires
	conn, err := redis.Dial()
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	_ = conn.Close() // it was needed for its side effect, to start without a port
	redis.Server().SetPreHook(about(time.Now()))
	return redis, nil
}

// about answers INFO server, which miniredis does not know, with what scripts need to tell a node
// that lost its memory from a limit that is new, and one run of a server from the next.
func about(since time.Time) server.Hook {
	var run [20]byte
	_, _ = rand.Read(run[:]) // never fails: see crypto/rand
	return func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		c.WriteBulk(fmt.Sprintf("# Server\r\nredis_mode:standalone\r\nrun_id:%x\r\nuptime_in_seconds:%d\r\n",
			run, int64(time.Since(since)/time.Second)))
		return true
	}
}

func (n *node) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	n.stopLocked()
	return nil
}

func (n *node) stopLocked() {
	if n.listener == nil {
		return
	}
	n.listener.cut()
	n.listener = nil
	for end := time.Now().Add(drainTimeout); n.redis.CurrentConnectionCount() > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
}

func (n *node) resume() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.resumeLocked()
}

func (n *node) resumeLocked() error {
	if n.closed {
		return ErrClosed
	}
	if n.listener != nil {
		return nil
	}
	if n.pipes != nil {
		n.listener = listen(n.pipes.open(), n.redis.Server())
		return nil
	}
	l, err := port(n.addr)
	if err != nil {
		return err
	}
	n.listener = listen(l, n.redis.Server())
	return nil
}

func (n *node) lose() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	empty, err := newRedis()
	if err != nil {
		return err
	}
	n.stopLocked()
	n.redis.Close()
	n.redis = empty
	return n.resumeLocked()
}

func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.closed = true
	n.stopLocked()
	n.redis.Close()
}
