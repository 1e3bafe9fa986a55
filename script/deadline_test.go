package script

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// A state that does not exist is created with a share only until the deadline, by a take and by a
// reservation alike, under every algorithm.
func TestNoShareIsCreatedAfterTheDeadline(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint := context.Background(), NewEndpoint(client)
		for a := range algorithms {
			ref := a.Keys("", "t", "limit")
			p, err := Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a}.Proposal()
			if err != nil {
				t.Fatal(err)
			}
			request := ones(p, 1)
			request.Deadline = Unconfirmed
			reply, err := endpoint.Take(ctx, ref, request)
			if err != nil || reply.Status != Absent || reply.Granted != 0 || reply.At == 0 {
				t.Fatalf("%v: unconfirmed: %+v %v", a, reply, err)
			}
			request.Deadline = reply.At // is over by now
			if late, err := endpoint.Take(ctx, ref, request); err != nil || late.Status != Absent || late.Granted != 0 {
				t.Fatalf("%v: late: %+v %v", a, late, err)
			}
			book := &ReserveRequest{Proposal: p, Permits: 1, MaxDelay: time.Minute, Relied: Relied{Deadline: reply.At}}
			if late, err := endpoint.Reserve(ctx, ref, book); err != nil || late.Status != Absent || late.Granted != 0 {
				t.Fatalf("%v: late reservation: %+v %v", a, late, err)
			}
			if n, err := command(t, client, "EXISTS", ref.Head()).AsInt64(); err != nil || n != 0 {
				t.Fatalf("%v: a state was created: %v", a, err)
			}
			request.Deadline = clock.ServerTime(int64(reply.At) + 60*second)
			if made, err := endpoint.Take(ctx, ref, request); err != nil || made.Status != Fresh || made.Granted != 1 {
				t.Fatalf("%v: in time: %+v %v", a, made, err)
			}
			request.Deadline = reply.At // does not matter where there is a state of that epoch
			if again, err := endpoint.Take(ctx, ref, request); err != nil || again.Status != OK || again.Granted != 1 {
				t.Fatalf("%v: with a state: %+v %v", a, again, err)
			}
			if p, err = (Terms{Epoch: 2, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a}).Proposal(); err != nil {
				t.Fatal(err)
			}
			request = ones(p, 1)
			request.Deadline = Unconfirmed // the state is behind: it may be that of who was behind, after a loss
			if behind, err := endpoint.Take(ctx, ref, request); err != nil || behind.Status != Absent {
				t.Fatalf("%v: of an epoch that is behind, unconfirmed: %+v %v", a, behind, err)
			}
			request.Deadline = clock.ServerTime(int64(reply.At) + 60*second)
			if ahead, err := endpoint.Take(ctx, ref, request); err != nil || ahead.Epoch != 2 || ahead.Used != 3 {
				t.Fatalf("%v: of an epoch that is behind, in time: %+v %v", a, ahead, err)
			}
		}
	})
}

// A state without a share is created until the deadline only, as well. Else a call that comes late
// would give it an old epoch, and a second one, as late, an old share.
func TestAStateWithoutAShareHasADeadlineToo(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		for a := range algorithms {
			endpoint, ref := NewEndpoint(client), a.Keys("", "t", "limit")
			for _, floor := range []int64{0, 10} {
				p, err := Terms{Epoch: 1, Target: 10, Floor: floor, Window: time.Minute, Algorithm: a}.Proposal()
				if err != nil {
					t.Fatal(err)
				}
				reply, err := endpoint.Take(context.Background(), ref,
					&TakeRequest{Proposal: p, Relied: Relied{Deadline: Unconfirmed}})
				if err != nil || reply.Status != Absent || reply.Share != 0 || reply.Epoch != 0 {
					t.Fatalf("%v, floor %d: %+v %v", a, floor, reply, err)
				}
			}
		}
	})
}

// After its fence a call grants, adopts and writes nothing, also where there is a state.
func TestNothingIsDoneAfterTheFence(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint := context.Background(), NewEndpoint(client)
		for a := range algorithms {
			ref := a.Keys("", "t", "limit")
			first := terms(t, Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a})
			reply, err := endpoint.Take(ctx, ref, ones(first, 1))
			if err != nil || reply.Granted != 1 {
				t.Fatalf("%v: %+v %v", a, reply, err)
			}
			before, now := command(t, client, "GET", ref.Head()), nodeTime(t, client)
			next := terms(t, Terms{Epoch: 2, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a})
			request, book := ones(next,
				1), &ReserveRequest{Proposal: next, Permits: 1, MaxDelay: time.Minute}
			request.Fence, book.Fence = clock.ServerTime(now-second), clock.ServerTime(now-second)
			if late, err := endpoint.Take(ctx, ref, request); err != nil || late.Status != Fenced ||
				late.Granted != 0 ||
				int64(late.At) < now {
				t.Fatalf("%v: %+v %v", a, late, err)
			}
			if late, err := endpoint.Reserve(ctx, ref, book); err != nil || late.Status != Fenced || late.Granted != 0 {
				t.Fatalf("%v: %+v %v", a, late, err)
			}
			was, _ := before.ToString()
			if is, err := command(t, client, "GET", ref.Head()).ToString(); err != nil || is != was {
				t.Fatalf("%v: the state was %q, is %q: %v", a, was, is, err)
			}
			sections := []Section{{Ref: ref, Request: request}, {Ref: ref, Request: ones(first, 1)}}
			if err := endpoint.TakeAll(ctx, sections); err != nil || sections[0].Reply.Status != Fenced ||
				sections[1].Reply.Granted != 1 || sections[1].Reply.Epoch != 1 {
				t.Fatalf("%v: %+v %v", a, sections, err)
			}
			request.Fence = clock.ServerTime(now + 60*second)
			if again, err := endpoint.Take(ctx, ref, request); err != nil || again.Granted != 1 || again.Epoch != 2 {
				t.Fatalf("%v: in time: %+v %v", a, again, err)
			}
		}
	})
}

// nodeTime is what time it is on a server, in microseconds.
func nodeTime(tb testing.TB, client rueidis.Client) int64 {
	parts, err := command(tb, client, "TIME").AsIntSlice()
	if err != nil || len(parts) != 2 {
		tb.Fatal(parts, err)
	}
	return parts[0]*second + parts[1]
}
