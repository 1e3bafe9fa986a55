package redistest

import (
	"testing"

	"github.com/redis/rueidis"
)

// ClientOption is a rueidis configuration for this one server.
func (s *Server) ClientOption() rueidis.ClientOption {
	return Slim(rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		TLSConfig:         s.tls,
		ForceSingleClient: true,
		DisableCache:      true,
	})
}

// Slim is for connections that carry little: by default each has buffers of a megabyte and 1,024
// channels, and to make those is most of what a test costs that connects often. A pipeline with the
// text of a script fits: a connection in memory has no room, and both ends would wait to write.
func Slim(o rueidis.ClientOption) rueidis.ClientOption {
	o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 1<<13, 1<<16, 7
	return o
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
