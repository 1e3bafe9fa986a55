package redissim

import "slices"

// ofConnections are the commands that are about a connection. A front answers them itself.
var ofConnections = []string{"AUTH", "CLIENT", "COMMAND", "HELLO", "PING", "QUIT", "SELECT"}

// Writer is the part of a front that writes replies in the protocol of Redis.
type Writer interface {
	WriteNull()
	WriteInt(n int)
	WriteBulk(text string)
	WriteInline(text string)
	WriteError(text string)
	WriteLen(n int)
}

// Answer carries out a command that a front has read, its name in capitals, and has w write the
// reply. It reports false, and does nothing, if the command is about the connection.
//
// The front of tests is a miniredis. Scripts take a fraction of the time that they take there: it
// makes an interpreter for each call.
func (s *Server) Answer(w Writer, cmd string, args ...string) bool {
	if slices.Contains(ofConnections, cmd) {
		return false
	}
	write(w, s.Do(append([]string{cmd}, args...)))
	return true
}

func write(w Writer, reply any) {
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
