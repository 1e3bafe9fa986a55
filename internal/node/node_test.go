package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
)

// A caller looks whether the node is connected just before the attempt of another one ends, and
// wants to begin one just after: there is nothing to begin. Else the first client would be
// replaced, and nobody would close it.
func TestAConnectionMadeMeanwhileIsUsedAndNotMadeAgain(t *testing.T) {
	n, _ := reached(t)
	n.client.Store(&connected{}) // as an attempt does
	if n.begin() != nil {
		t.Error("it connects again")
	}
}

// saw is a server whose clock is told by replies that come at times of the client's clock.
type saw struct {
	ServerClock
	*testing.T
}

// learns is a reply that came at that second of the client's clock and told that of the server.
func (s *saw) learns(received, told float64) {
	s.Learn(clock.Elapsed(int64(received*1e9)), clock.ServerTime(int64(told*1e6)))
}

// ends is when something ends on the server's clock that was read from began on; 0: nobody knows.
func (s *saw) ends(began, now, want float64) {
	s.Helper()
	at, ok := s.At(clock.Elapsed(int64(began*1e9)+int64(Relied)), clock.Elapsed(int64(now*1e9)))
	if !ok {
		at = 0
	}
	if at != clock.ServerTime(want*1e6) {
		s.Errorf("what was read from %v on ends at %v after %v, want %v", began, float64(at)/1e6, now, want)
	}
}

// What was read ends at a time of a server that was heard before it was read, and not at a later
// one, however late replies tell that the client stood still.
func TestWhatWasReadEndsByAClockThatWasHeardBefore(t *testing.T) {
	s := &saw{T: t}
	s.ends(1, 1, 0)
	s.learns(2, 1002)
	s.ends(1, 2, 1006) // the first reply of all is taken at its word
	s.ends(3, 3, 1008)
	s.learns(4, 1064) // the client stood still for a minute
	s.ends(3, 4, 1008)
	s.ends(4, 4, 1069)
	s.ends(1, 4, 0)      // read before the clock was heard
	s.learns(5, 1065.05) // a reply that came sooner
	s.learns(6, 1065.9)  // and one that came later
	s.ends(5, 6, 1069.9)
	s.learns(10, 1070)
	s.ends(9.9, 10, 1074.8)
	s.ends(10, 10, 1075)
	s.ends(10, 70, 1075)
	s.ends(110, 130, 1174.4) // heard two minutes ago: it may have drifted
	s.ends(250, 251, 0)      // heard too long ago
	s = &saw{T: t}
	s.learns(72, 1132)
	s.ends(73, 73, 1138)
	s.ends(71, 73, 1136) // as above
}

// A machine that stands still again and again, each time for a moment, gains nothing by that: it
// has to read anew.
func TestManySmallStopsGainNothing(t *testing.T) {
	s := &saw{T: t}
	stood := 0.0
	s.learns(1, 1001)
	for i := range 40 {
		now := 1.1 + float64(i)/10
		stood += float64(unsteady.Seconds()) * 0.9
		s.learns(now, 1000+now+stood)
	}
	s.ends(1, 5, 0)
}

// A node tells mistakes, which waiting does not mend, from outages. These are the errors that some
// servers give: TestAMistakeIsNoOutage of test/faults has those that all give.
func TestMistakesAreTold(t *testing.T) {
	said := func(text string) error { return &script.RefusedError{Reason: text} }
	for _, c := range []struct {
		name    string
		err     error
		written bool
		want    bool
	}{
		{"no password", said("NOAUTH HELLO must be called with the client already authenticated"), true, true},
		{"a password too many", said("ERR AUTH <password> called without any password configured"), true, true},
		{"no right within a script", said("ERR ACL failure in script: no permissions to run this"), true, true},
		{"a database of a cluster", said("ERR SELECT is not allowed in cluster mode"), true, true},
		{"a command that is renamed", said("ERR unknown command 'EVALSHA'"), true, true},
		{"one that a script calls", said("ERR Unknown Redis command called from script (INFO)"), true, true},
		{"one that a script calls on Valkey", said("ERR Unknown command called from script (INFO)"), true, true},
		{"no INFO to speak of", said("ERR INFO server tells no run_id"), true, true},
		{"a certificate of nobody", fmt.Errorf("dial: %w", x509.UnknownAuthorityError{}), true, true},
		{"no certificate of the client", fmt.Errorf("dial: %w",
			&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), true, true},
		{"another alert", &net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}, true, false},
		{"noise from one that wrote", fmt.Errorf("%s: %d", noRedis, 'H'), true, false},
		{"a master that was demoted", said("READONLY You can't write against a read only replica."), true, false},
		{"loading", said("LOADING Redis is loading the dataset in memory"), false, false},
		{"refused", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, false, false},
	} {
		if got := mistaken(c.err, c.written); (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A connection that is being made while its client is closed is closed too.
func TestNoConnectionOutlivesItsClient(t *testing.T) {
	server := miniredis.RunT(t)
	dialled := make(chan net.Conn, 8)
	var client rueidis.Client
	client, err := newOwned(safeOption(rueidis.ClientOption{InitAddress: []string{server.Addr()},
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			made, err := d.DialContext(ctx, "tcp", addr)
			if client != nil { // the second one
				client.Close()
			}
			dialled <- made
			return made, err
		}}), func() {})
	if err != nil {
		t.Fatal(err)
	}
	_ = (<-dialled).Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil && len(dialled) == 0 {
		_ = client.Do(ctx, client.B().Ping().Build()).Error()
	}
	if ctx.Err() != nil {
		t.Fatal("it does not connect again")
	}
	if err := (<-dialled).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection that was being made is open: %v", err)
	}
}

// Words of a server that was not asked anything are no reply: rueidis would panic. Nor are those by
// which it has no connection left.
func TestWhatAServerSaysUnaskedIsAnError(t *testing.T) {
	const full, denied = "-ERR max number of clients reached\r\n", "-NOAUTH\r\n"
	for _, c := range []struct {
		asked, fails bool
		said         string
	}{{false, true, full}, {false, true, "+OK\r\n"}, {true, true, full}, {true, false, denied}} {
		server, made := net.Pipe()
		client := (&owned{conns: make(map[*conn]bool)}).own(made)
		go func() {
			if c.asked {
				_, _ = server.Read(make([]byte, 4))
			}
			_, _ = server.Write([]byte(c.said))
		}()
		if c.asked {
			_, _ = client.Write([]byte("PING"))
		}
		heard, err := client.Read(make([]byte, 100))
		if (err != nil) != c.fails || err == nil && heard != len(c.said) ||
			err != nil && !strings.Contains(err.Error(), c.said[1:len(c.said)-2]) {
			t.Errorf("%+v: %d bytes, %v", c, heard, err)
		}
		_, _ = client.Close(), server.Close()
	}
}
