package redissim

import (
	"slices"

	"github.com/alicebob/miniredis/v2/server"
)

// ofConnections are the commands that are about a connection. A front answers them itself.
var ofConnections = []string{"AUTH", "CLIENT", "COMMAND", "HELLO", "PING", "QUIT", "SELECT"}

// Hook has a miniredis server speak for s: that one talks the protocol with its clients, and s
// carries out their commands. Scripts take a fraction of the time that they take a miniredis, which
// makes an interpreter for each call.
func (s *Server) Hook(c *server.Peer, cmd string, args ...string) bool {
	if slices.Contains(ofConnections, cmd) {
		return false
	}
	reply := s.Do(append([]string{cmd}, args...))
	c.Block(func(w *server.Writer) { write(w, reply) })
	return true
}

func write(w *server.Writer, reply any) {
	switch r := reply.(type) {
	case nil:
		w.WriteNull()
	case int64:
		w.WriteInt(int(r))
	case string:
		w.WriteBulk(r)
	case status:
		w.WriteInline(string(r))
	case failure:
		w.WriteError(string(r))
	case []any:
		w.WriteLen(len(r))
		for _, element := range r {
			write(w, element)
		}
	}
}
