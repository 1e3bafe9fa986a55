package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// Requests without a key, or that cannot be, are refused and not sent.
func TestInvalidRequests(t *testing.T) {
	endpoint, ctx, p := NewEndpoint(nil), t.Context(), proposal(t, 1, 10, time.Second) // nil: nothing may be sent
	_, taken := endpoint.Take(ctx, ShardRef{}, &TakeRequest{Proposal: p})
	_, settled := endpoint.Settle(ctx, ShardRef{}, SettleRequest{Back: 1})
	_, seen := endpoint.Peek(ctx, ShardRef{})
	_, late := endpoint.Reserve(ctx, ShardKeys("", "t", "limit"),
		&ReserveRequest{Proposal: p, Permits: 1, MinDelay: 2, MaxDelay: 1})
	_, slow := Terms{Epoch: 1, Target: 1, Window: MaxWindow, Algorithm: AlgorithmTokenBucket, Burst: 11}.Proposal()
	for i, err := range []error{taken, settled, seen, late, slow} {
		if !errors.Is(err, ErrInvalidRequest) || !NotExecuted(err) {
			t.Errorf("%d: %v", i, err)
		}
	}
	endpoint.TakeAll(ctx, nil)
}
