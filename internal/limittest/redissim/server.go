package redissim

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

// Server is one simulated node. Whatever looks at its keys or changes them holds the lock of the
// engine.
type Server struct {
	number  int64 // tells it from other servers
	clock   func() time.Time
	offset  time.Duration // of the node's TIME from the clock
	since   time.Time     // when it was started, on the clock
	keys    map[string]*value
	loaded  map[string]*compiled // scripts by their SHA-1
	refuses string               // what it says to every command that writes; "": it carries them out

	queue chan func()   // what has arrived
	done  chan struct{} // closed by Close

	// Scripts counts the script calls that were run.
	Scripts atomic.Int64
}

// ahead is how far a node's TIME is ahead of a clock that is long past. A test bubble begins in the
// year 2000, when a time in us had 15 digits. Now it has 16, and scripts rely on that.
const ahead = 10 * 366 * 24 * time.Hour

// NewServer returns an empty node that has been up for an hour.
func NewServer(clock func() time.Time) *Server {
	s := &Server{number: chance.N(int64(1) << 62), clock: clock, since: clock().Add(-time.Hour),
		keys: make(map[string]*value), loaded: make(map[string]*compiled), queue: make(chan func(), 64),
		done: make(chan struct{})}
	if clock().UnixMicro() < 1e15 {
		s.offset = ahead
	}
	return s
}

// Serve carries out what links send, one after the other, until Close: scripts need a stack that
// has grown.
func (s *Server) Serve() {
	for {
		select {
		case f := <-s.queue:
			f()
		case <-s.done:
			return
		}
	}
}

// arrives has Serve carry something out.
func (s *Server) arrives(f func()) {
	select {
	case s.queue <- f:
	case <-s.done:
	}
}

// Close ends Serve. What arrives later is lost.
func (s *Server) Close() {
	close(s.done)
}

// now is the node's TIME in us.
func (s *Server) now() int64 { return s.clock().Add(s.offset).UnixMicro() }

// Step moves the node's clock.
func (s *Server) Step(by time.Duration) {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	s.offset += by
}

// Refuse has the node say this to every command that writes, as one does that is full or has too
// few replicas; "" has it carry them out again.
func (s *Server) Refuse(text string) {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	s.refuses = text
}

// Flush forgets every key, as FLUSHALL does; scripts stay.
func (s *Server) Flush() {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	clear(s.keys)
}

// Restart forgets what FLUSHALL forgets, and the scripts, and how long the node has been up.
func (s *Server) Restart() {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	clear(s.keys)
	clear(s.loaded)
	s.since = s.clock()
}

// Image is what some keys of a server held at one time.
type Image map[string]*value

// Save returns an image of the keys that match.
func (s *Server) Save(match func(key string) bool) Image {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	image := Image{}
	for key := range s.keys {
		if v := s.get(key); v != nil && match(key) {
			image[key] = v.clone()
		}
	}
	return image
}

// Load puts back what matches as it was in the image: keys that match and are not in it go. What
// has expired meanwhile stays away.
func (s *Server) Load(image Image, match func(key string) bool) {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	s.drop(match)
	for key, v := range image {
		if match(key) {
			s.keys[key] = v.clone()
		}
	}
}

// Drop deletes the keys that match and returns how many there were.
func (s *Server) Drop(match func(key string) bool) (n int) {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	return s.drop(match)
}

func (s *Server) drop(match func(key string) bool) (n int) {
	maps.DeleteFunc(s.keys, func(key string, _ *value) bool {
		if match(key) {
			n++
			return true
		}
		return false
	})
	return n
}

// Keys returns the names of all keys, sorted.
func (s *Server) Keys() []string {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	maps.DeleteFunc(s.keys, func(key string, _ *value) bool { return s.get(key) == nil })
	return slices.Sorted(maps.Keys(s.keys))
}

// get returns a key's value, nil if there is none or it has expired.
func (s *Server) get(key string) *value {
	v := s.keys[key]
	if v != nil && v.expires != 0 && v.expires <= s.now() {
		delete(s.keys, key)
		return nil
	}
	return v
}

// failure is an error reply.
type failure string

func (f failure) Error() string { return string(f) }

const wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")

// status is a simple string.
type status string

// do runs one command and returns its reply: nil, int64, string, status, failure or []any of these.
func (s *Server) do(args []string) any {
	c, ok := commands[strings.ToUpper(args[0])]
	if !ok {
		return failure("ERR unknown command '" + args[0] + "'")
	}
	if len(args)-1 < c.least {
		return failure("ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command")
	}
	if s.refuses != "" && slices.Contains(writes, strings.ToUpper(args[0])) {
		return failure(s.refuses)
	}
	return c.run(s, args[1:])
}
