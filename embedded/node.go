package embedded

import (
	"crypto/rand"
	"fmt"
	"net"
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
	addr   string
	pipes  *pipes                       // nil: it listens on a port
	listen func() (net.Listener, error) // at addr

	mu       sync.Mutex // held over a whole change: stop, resume, lose or close
	redis    *miniredis.Miniredis
	listener *listener // nil while stopped
	closed   bool
}

// startNode starts a node on a port of this machine.
func startNode() (*node, error) {
	n := &node{addr: "127.0.0.1:0"}
	n.listen = func() (net.Listener, error) { return net.Listen("tcp", n.addr) }
	err := n.lose()
	if err == nil {
		n.addr = n.listener.Addr().String()
	}
	return n, err
}

// startInMemory starts a node that only this process can reach.
func startInMemory(addr string) (*node, error) {
	n := &node{addr: addr, pipes: &pipes{}}
	n.listen = n.pipes.listen
	return n, n.lose()
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

// change has one change of the node made at a time, and none once it is closed.
func (n *node) change(how func(*node) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return how(n)
}

func (n *node) stop() error {
	if n.listener == nil {
		return nil
	}
	n.listener.cut()
	n.listener = nil
	for end := time.Now().Add(drainTimeout); n.redis.CurrentConnectionCount() > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}

func (n *node) resume() error {
	if n.listener != nil {
		return nil
	}
	l, err := n.listen()
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	n.listener = listen(l, n.redis.Server())
	return nil
}

// lose puts an empty server in place of the one there is, if any.
func (n *node) lose() error {
	empty, err := newRedis()
	if err != nil {
		return err
	}
	n.end()
	n.redis = empty
	return n.resume()
}

// close ends the node for ever.
func (n *node) close() error {
	n.closed = true
	n.end()
	return nil
}

// end ends the server, if there is one.
func (n *node) end() {
	_ = n.stop()
	if n.redis != nil {
		n.redis.Close()
	}
}
