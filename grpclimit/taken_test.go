package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/race"
)

// lender is a Waiter whose permits can be given back, which counts.
type lender struct {
	got         func(asked int)
	asked, back int
}

func (*lender) WaitN(context.Context, int64) error { panic("it has Acquire") }

func (l *lender) Acquire(context.Context, int64) (shardlimit.Decision, error) {
	l.asked++
	if l.got != nil {
		l.got(l.asked)
	}
	return shardlimit.Decision{Allowed: true, Granted: 1}, nil
}

func (l *lender) Settle(ctx context.Context, _ shardlimit.Decision, _ int64) error {
	l.back++
	return ctx.Err() // the end of the call does not reach it
}

// A call that runs into a pause, or whose context ends, after it has got its permits gives them
// back.
func TestACallThatIsNotMadeGivesBackWhatItTook(t *testing.T) {
	pauses := httplimit.NewPauses(time.Minute)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("why")
	l := &lender{got: func(asked int) {
		if asked == 1 { // the server asks for a pause meanwhile
			if err := pauses.Begin(t.Context(), "/s/M", 20*time.Millisecond); err != nil {
				t.Error(err)
			}
			return
		}
		cancel(why)
	}}
	c := &grpclimit.Client{Pauses: pauses, Key: grpclimit.Method, Permits: grpclimit.WaitOne(l)}
	made := false
	err := through(ctx, c, func() error { made = true; return nil })
	if !errors.Is(err, why) || status.Code(err) != codes.Canceled || made || l.asked != 2 || l.back != 2 {
		t.Errorf("%v, made %v: %d taken, %d given back", err, made, l.asked, l.back)
	}
	l = &lender{}
	c = &grpclimit.Client{Permits: grpclimit.WaitOne(l)}
	if err := through(t.Context(), c, fine); err != nil || l.asked != 1 || l.back != 0 {
		t.Errorf("a call that was made: %v, %d taken, %d given back", err, l.asked, l.back)
	}
}

// A call whose time ends while it is not its turn to tell the fleet of a pause returns then.
func TestACallReturnsByItsContextWhenAPauseBegins(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(servers.Close)
		client, other := connect(t, servers.Nodes()), connect(t, servers.Nodes())
		if _, err := httplimit.SharedPauses(t.Context(), other, "pauses", time.Minute); err != nil {
			t.Fatal(err)
		}
		turns, err := other.OpenFamily(t.Context(), "pauses.turns")
		if err != nil {
			t.Fatal(err)
		}
		limit := turns.Limit()
		limit.Mode, limit.Shards = shardlimit.Closed, 0 // it is never its turn
		if err := turns.SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		pauses, err := httplimit.SharedPauses(t.Context(), client, "pauses", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c := &grpclimit.Client{Pauses: pauses, Key: grpclimit.Method}
		var asked time.Time
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err = c.Unary(ctx, "/s/M", nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				asked = time.Now()
				return asks(t, codes.ResourceExhausted, 50*time.Second)
			})
		if took := time.Since(asked); status.Code(err) != codes.ResourceExhausted || took > 205*time.Millisecond {
			t.Errorf("%v after %s, its time was 200ms", err, took)
		}
		time.Sleep(time.Minute) // what goes on ends
	})
}
