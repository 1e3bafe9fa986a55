package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/shardlimit/shardlimit/script"
)

// What waiting does not change is told from what it may.
func TestMistakesAreTold(t *testing.T) {
	said := func(text string) error { return &script.RefusedError{Reason: text} }
	for _, c := range []struct {
		name    string
		err     error
		written bool
		want    bool
	}{
		{"no password", said("NOAUTH HELLO must be called with the client already authenticated"), true, true},
		{"wrong password", said("WRONGPASS invalid username-password pair"), true, true},
		{"a password too many", said("ERR AUTH <password> called without any password configured"), true, true},
		{"no right to a command", said("NOPERM this user has no permissions to run the 'eval' command"), true, true},
		{"no right within a script", said("ERR The user executing the script can't run this command"), true, true},
		{"a database that is not there", said("ERR DB index is out of range"), true, true},
		{"a database of a cluster", said("ERR SELECT is not allowed in cluster mode"), true, true},
		{"a command that is renamed", said("ERR unknown command 'EVALSHA'"), true, true},
		{"one that a script calls", said("ERR Unknown Redis command called from script (INFO)"), true, true},
		{"one that a script calls on Valkey", said("ERR Unknown command called from script (INFO)"), true, true},
		{"no INFO to speak of", said("ERR INFO server tells no run_id"), true, true},
		{"one node of a cluster", said("MOVED 3999 127.0.0.1:6381"), true, true},
		{"a replica", said("READONLY You can't write against a read only replica."), false, true},
		{"a certificate of nobody", fmt.Errorf("dial: %w", x509.UnknownAuthorityError{}), true, true},
		{"no certificate of the client", fmt.Errorf("dial: %w",
			&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), true, true},
		{"another alert", &net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}, true, false},
		{"TLS to a plain port", fmt.Errorf("dial: %w", tls.RecordHeaderError{Msg: "plain text"}), true, true},
		{"plain text to a port of TLS", fmt.Errorf("dial: %w", errWantsTLS), true, true},
		{"a master that was demoted", said("READONLY You can't write against a read only replica."), true, false},
		{"loading", said("LOADING Redis is loading the dataset in memory"), false, false},
		{"full", said("OOM command not allowed when used memory > 'maxmemory'"), false, false},
		{"busy", said("BUSY Redis is busy running a script"), false, false},
		{"refused", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, false, false},
		{"late", context.DeadlineExceeded, false, false},
		{"hung up", io.EOF, false, false},
	} {
		if got := mistaken(c.err, c.written); (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
