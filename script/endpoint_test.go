package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/majority"
)

// proposal is one for a sliding log.
func proposal(tb testing.TB, epoch, share int64, window time.Duration) *Proposal {
	tb.Helper()
	return terms(tb, Terms{Epoch: epoch, Target: share, Floor: share, Window: window, Quarantine: time.Microsecond})
}

func asks(p *Proposal, size, count int64) *TakeRequest {
	return &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: count}}}
}

func ones(p *Proposal, count int64) *TakeRequest { return asks(p, 1, count) }

// calls reads how often a server has executed a command.
func calls(tb testing.TB, client rueidis.Client, command string) int64 {
	tb.Helper()
	info, err := do(client, "INFO", "commandstats").ToString()
	must(tb, err)
	match := regexp.MustCompile("cmdstat_" + command + ":calls=([0-9]+)").FindStringSubmatch(info)
	if match == nil {
		return 0
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	must(tb, err)
	return n
}

func command(tb testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	tb.Helper()
	result := do(client, words...)
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		tb.Fatalf("%q: %v", words, err)
	}
	return result
}

func TestNotExecuted(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("EOF"), false},
		{context.DeadlineExceeded, false},
		{rueidis.ErrClosing, false}, // also told to what was already written
		{rueidis.ErrNoSlot, true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), true},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, false},
		{&unsentError{context.Canceled}, true},
		{&StateError{Key: "k"}, true},
		{&RefusedError{Reason: "OOM"}, true},
		{malformed(&program{}, "x"), false},
		{invalid("x"), true},
	} {
		if got := NotExecuted(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// What is out of range is refused, and not sent.
func TestInvalidRequests(t *testing.T) {
	endpoint, ctx, ref := NewEndpoint(nil), t.Context(), ShardKeys("", "t", "limit") // nil: nothing may be sent
	p, long := proposal(t, 1, 10, time.Second), strings.Repeat("x", MaxVoteValue+1)
	take := func(r *TakeRequest) error { _, err := endpoint.Take(ctx, ref, r); return err }
	calls := func(callers ...Caller) error { return take(&TakeRequest{Proposal: p, Callers: callers}) }
	of := func(caller int) error {
		return take(&TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: 1, Caller: caller}}})
	}
	settle := func(r SettleRequest) error { _, err := endpoint.Settle(ctx, ref, r); return err }
	propose := func(epoch, target, floor int64, window, keep time.Duration) error {
		_, err := Terms{Epoch: epoch, Target: target, Floor: floor, Window: window, Keep: keep}.Proposal()
		return err
	}
	peek := func(prefix, tag string) error {
		_, err := endpoint.Peek(ctx, ShardKeys(prefix, tag, "limit"))
		return err
	}
	voteAt := func(prefix, tag string, r VoteRequest) error {
		_, err := endpoint.Vote(ctx, VoteKey(prefix, tag, "g", "limit"), r)
		return err
	}
	vote := func(r VoteRequest) error { return voteAt("", "t", r) }
	point := func(tag string, r PlacesRequest) error {
		_, err := endpoint.Places(ctx, PlacesKey("", tag), r)
		return err
	}
	id := caller(1).ID
	for name, err := range map[string]error{
		"nil":                   take(nil),
		"no proposal":           take(&TakeRequest{}),
		"size 0":                take(asks(p, 0, 1)),
		"count 0":               take(asks(p, 1, 0)),
		"size":                  take(asks(p, MaxPermits+1, 1)),
		"count":                 take(asks(p, 1, MaxPermits+1)),
		"groups":                take(&TakeRequest{Proposal: p, Groups: slices.Repeat(asks(p, 1, 1).Groups, MaxGroups+1)}),
		"id":                    calls(Caller{ID: "me", Weight: 1}),
		"capital id":            calls(Caller{ID: "00000000000000FF", Weight: 1}),
		"no weight":             calls(Caller{ID: id}),
		"weight":                calls(Caller{ID: id, Weight: fairness.MaxWeight + 1}),
		"unmet below 0":         calls(Caller{ID: id, Weight: 1, Unmet: -1}),
		"waiting":               calls(Caller{ID: id, Weight: 1, Waiting: fairness.MaxReport + 1}),
		"group of nobody":       of(1),
		"group of one before 0": of(-1),
		"callers":               calls(slices.Repeat([]Caller{caller(1)}, MaxCallers+1)...),
		"back below 0":          settle(SettleRequest{Back: -1, At: 1}),
		"back before 0":         settle(SettleRequest{Back: 1, At: -1}),
		"charge of less":        settle(SettleRequest{Charge: -1, Proposal: p}),
		"bare charge":           settle(SettleRequest{Charge: 1}),
		"owed":                  settle(SettleRequest{Owed: 11 * MaxWindow}),
		"long mark":             settle(SettleRequest{Mark: long[:mostMark+1]}),
		"mark in braces":        settle(SettleRequest{Mark: "}"}),
		"epoch":                 propose(MaxEpoch+1, 1, 1, time.Second, 0),
		"negative epoch":        propose(-1, 1, 1, time.Second, 0),
		"target":                propose(1, MaxPermits+1, 1, time.Second, 0),
		"floor":                 propose(1, 1, 2, time.Second, 0),
		"negative floor":        propose(1, 1, -1, time.Second, 0),
		"short window":          propose(1, 1, 1, MinWindow-1, 0),
		"long window":           propose(1, 1, 1, MaxWindow+1, 0),
		"negative keep":         propose(1, 1, 1, time.Second, -1),
		"braces":                peek("a{b", "t"),
		"no tag":                peek("a", ""),
		"kind of vote":          vote(VoteRequest{Kind: VoteList + 1}),
		"no kind":               vote(VoteRequest{}),
		"no ballot":             vote(VoteRequest{Kind: majority.Prepare}),
		"ballot below 0":        vote(VoteRequest{Kind: majority.Prepare, Ballot: majority.Ballot{Round: -1}}),
		"ballot":                vote(VoteRequest{Kind: majority.Prepare, Ballot: majority.Ballot{Proposer: MaxEpoch + 1}}),
		"mark of a place":       vote(VoteRequest{Kind: majority.Accept, Ballot: one, Mark: long[:maxVoteMark+1]}),
		"value":                 vote(VoteRequest{Kind: majority.Accept, Ballot: one, Value: long}),
		"known":                 vote(VoteRequest{Kind: majority.Accept, Ballot: one, Known: -1}),
		"place's negative keep": vote(VoteRequest{Kind: majority.Read, Keep: -1}),
		"place's short keep":    vote(VoteRequest{Kind: majority.Read, Keep: time.Microsecond}),
		"place's long keep":     vote(VoteRequest{Kind: majority.Read, Keep: 1000*MaxWindow + 1}),
		"participant": vote(VoteRequest{Kind: majority.Read, Participant: long[:MaxParticipant+1],
			ParticipantTTL: time.Second}),
		"participant for no time": vote(VoteRequest{Kind: majority.Read, Participant: "p"}),
		"participants for less":   vote(VoteRequest{Kind: majority.Read, ParticipantTTL: -1}),
		"participants for longer": vote(VoteRequest{Kind: majority.Read, ParticipantTTL: 100*MaxWindow + 1}),
		"participant of a vote": vote(VoteRequest{Kind: majority.Prepare, Ballot: one, Participant: "p",
			ParticipantTTL: time.Second}),
		"place's braces":       voteAt("a{b", "t", VoteRequest{Kind: majority.Read}),
		"place's tag":          voteAt("a", "", VoteRequest{Kind: majority.Read}),
		"pointer":              point("t", PlacesRequest{Text: long[:MaxPointer+1]}),
		"expected pointer":     point("t", PlacesRequest{Text: "x", Expect: long[:MaxPointer+1]}),
		"pointer's keep":       point("t", PlacesRequest{Keep: -1}),
		"pointer's short keep": point("t", PlacesRequest{Text: "x", Keep: time.Microsecond}),
		"pointer's tag":        point("", PlacesRequest{}),
	} {
		if !errors.Is(err, ErrInvalidRequest) || !NotExecuted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	endpoint.TakeAll(ctx, nil)
}
