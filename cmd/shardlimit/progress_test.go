package main

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// unreachable is an outage as the library reports it.
func unreachable() error {
	op := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6379},
		Err: errors.New("connect: connection refused")}
	return errors.Join(shardlimit.ErrUnavailable, fmt.Errorf("the breaker is open: %w", op))
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{unreachable(), "cannot reach 10.0.0.1:6379: connect: connection refused"},
		{errors.Join(shardlimit.ErrUnavailable, errors.New("it is loading")), "no shard answered; it is loading"},
		{errors.New("a\nb"), "a; b"},
	} {
		if got := oneLine(c.err); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	_, flags := started(t, 1)
	limiter, err := clientOf(t, flags).Limiter(t.Context(), "mails", shardlimit.PerSecond(5000))
	if err != nil {
		t.Fatal(err)
	}
	for waiting, want := range map[int64]string{1024: "mails: 1,667/s of 5000/s, released 123,456, waiting 1,024",
		0: "mails: 1,667/s of 5000/s, released 123,456, waiting 0, waiting for input"} {
		if got := progressLine(limiter, 1666.7, 123456, waiting); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
