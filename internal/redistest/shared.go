package redistest

import (
	"os"
	"sync"
	"testing"
)

// shared is the one server that tests of this binary have in common.
var shared struct {
	sync.Mutex
	server *Server
	users  int
}

// Shared returns a standalone server in common with the other tests that use
// it at the same time. It is started for the first of them and stopped with the
// last, so nothing is left behind in whatever way the tests end; starting one
// takes some 20 ms. Keep to keys under Prefix, and leave Pause, Kill and
// FLUSHALL alone.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		// It may outlive this test, hence neither its TempDir nor its Cleanup.
		// Without persistence it writes no file, so any directory will do.
		s := &Server{tb: tb, path: serverProgram(tb), dir: os.TempDir(), config: newConfig(nil).after()}
		if err := s.launch(); err != nil {
			s.close()
			tb.Fatal(err)
		}
		shared.server = s
	}
	shared.users++
	tb.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.server.close()
			shared.server = nil
		}
	})
	return shared.server
}
