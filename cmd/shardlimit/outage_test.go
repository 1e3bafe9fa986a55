package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
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
		{errors.Join(shardlimit.ErrUnavailable, context.DeadlineExceeded),
			"Redis does not answer in time; look at its servers and the way there"},
		{errors.New("a\nb"), "a; b"},
	} {
		if got := oneLine(c.err); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// The cause of an outage stands there once, then a counter ever more seldom, then how long it was.
func TestOutageIsToldOnce(t *testing.T) {
	for _, rewrite := range []bool{false, true} {
		out, err := os.Create(t.TempDir() + "/err")
		if err != nil {
			t.Fatal(err)
		}
		p := &progress{name: "mails", to: out,
			limit: func() rate.Rate { return rate.Rate{Permits: 5, Per: time.Second} }}
		p.outage = outage{}
		p.rewrite = rewrite
		now := time.Unix(1000, 0)
		for second := range 200 {
			s := pace.Status{Lines: 10, Waiting: 5}
			if second >= 2 && second < 190 {
				s.Err = unreachable()
			}
			p.report(s, 0, now.Add(time.Duration(second)*time.Second))
		}
		_ = out.Close()
		text := strings.ReplaceAll(read(t, out.Name()), "\x1b[K", "")
		if n := strings.Count(text, "cannot reach"); n != 1 {
			t.Errorf("rewritten %t: the cause stands there %d times:\n%s", rewrite, n, text)
		}
		if !strings.Contains(text, "mails: Redis does not answer, trying again: cannot reach 10.0.0.1:6379: "+
			"connect: connection refused\n") ||
			!strings.Contains(text, "mails: Redis is back after 3m8s\n") {
			t.Errorf("rewritten %t:\n%s", rewrite, text)
		}
		counters := strings.Count(text, "no answer for ")
		if rewrite &&
			(counters != 187 || !strings.Contains(text, "\rmails: no answer for 1m1s, released 10, waiting 5")) ||
			!rewrite &&
				(counters != 5 || !strings.Contains(text, "\nmails: no answer for 15s, released 10, waiting 5\n")) {
			t.Errorf("rewritten %t: %d counters:\n%s", rewrite, counters, text)
		}
	}
}

func TestProgressAsJSON(t *testing.T) {
	out, err := os.Create(t.TempDir() + "/err")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	p := &progress{name: "mails", to: out, json: true,
		limit: func() rate.Rate { return rate.Rate{Permits: 5, Per: time.Second} }}
	now := time.Unix(1000, 0)
	p.report(pace.Status{Lines: 10, Waiting: 5, Phase: pace.WaitingForPermits}, 4.6, now)
	p.report(pace.Status{Lines: 10, Waiting: 5, Err: unreachable()}, 0, now.Add(time.Second))
	p.report(pace.Status{Lines: 10, Waiting: 5, Err: unreachable()}, 0, now.Add(2*time.Second))
	want := []progressJSON{
		{Name: "mails", State: "waiting_for_permits", Released: 10, Waiting: 5, PerSecond: 5, Permits: 5, PerUS: 1e6},
		{Name: "mails", State: "outage", Released: 10, Waiting: 5, Permits: 5, PerUS: 1e6,
			Error: "cannot reach 10.0.0.1:6379: connect: connection refused"},
		{Name: "mails", State: "outage", Released: 10, Waiting: 5, Permits: 5, PerUS: 1e6, OutageUS: 1e6,
			Error: "cannot reach 10.0.0.1:6379: connect: connection refused"},
	}
	for i, line := range strings.Split(strings.TrimSpace(read(t, out.Name())), "\n") {
		var got progressJSON
		if err := json.Unmarshal([]byte(line), &got); err != nil || got != want[i] {
			t.Errorf("line %d: %+v, %v; want %+v", i, got, err, want[i])
		}
	}
}

func TestProgressLine(t *testing.T) {
	limit := rate.Rate{Permits: 5000, Per: time.Second}
	for _, c := range []struct {
		status pace.Status
		want   string
	}{
		{pace.Status{Phase: pace.WaitingForPermits, Lines: 123456, Waiting: 1024},
			"mails: 1,667/s of 5000/s, released 123,456, waiting 1,024"},
		{pace.Status{Phase: pace.WaitingForInput, Lines: 1},
			"mails: 1,667/s of 5000/s, released 1, waiting 0, waiting for input"},
		{pace.Status{Phase: pace.WaitingForOutput, Waiting: 2},
			"mails: 1,667/s of 5000/s, released 0, waiting 2, waiting for the reader of the output"},
	} {
		if got := progressLine("mails", c.status, 1666.7, limit); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
