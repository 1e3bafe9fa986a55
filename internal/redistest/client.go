package redistest

import (
	"testing"

	"github.com/redis/rueidis"
)

// ClientOption is a rueidis configuration for this one server.
func (s *Server) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		ForceSingleClient: true,
		DisableCache:      true,
	}
}

// Client returns a client of this one server, also of a node of a cluster. tb
// closes it.
func (s *Server) Client(tb testing.TB) rueidis.Client {
	tb.Helper()
	// Closing a client waits for the server's answer, so a paused server must
	// be resumed before.
	return newClient(tb, s.ClientOption(), s)
}

func newClient(tb testing.TB, opt rueidis.ClientOption, servers ...*Server) rueidis.Client {
	tb.Helper()
	client, err := rueidis.NewClient(opt)
	if err != nil {
		tb.Fatalf("redistest: client of %v: %v", opt.InitAddress, err)
	}
	tb.Cleanup(func() {
		for _, s := range servers {
			s.mu.Lock()
			_ = s.resumeLocked() // what cannot be resumed is killed next
			s.mu.Unlock()
		}
		client.Close()
	})
	return client
}
