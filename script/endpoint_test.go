package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// proposal is one for a sliding log.
func proposal(tb testing.TB, epoch, share int64, window time.Duration) *Proposal {
	tb.Helper()
	return terms(tb, Terms{Epoch: epoch, Target: share, Floor: share, Window: window, Quarantine: true})
}

func ones(p *Proposal, count int64) *TakeRequest {
	return &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: count}}}
}

// calls reads how often a server has executed a command.
func calls(tb testing.TB, client rueidis.Client, command string) int64 {
	tb.Helper()
	info, err := client.Do(context.Background(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		tb.Fatal(err)
	}
	match := regexp.MustCompile("cmdstat_" + command + ":calls=([0-9]+)").FindStringSubmatch(info)
	if match == nil {
		return 0
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func command(tb testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	tb.Helper()
	result := client.Do(context.Background(), client.B().Arbitrary(words[0]).Args(words[1:]...).Build())
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

func TestInvalidRequests(t *testing.T) {
	endpoint, ctx, ref := NewEndpoint(nil), context.Background(), ShardKeys("", "t",
		"limit") // a nil client: nothing may be sent
	p := proposal(t, 1, 10, time.Second)
	take := func(r *TakeRequest) error { _, err := endpoint.Take(ctx, ref, r); return err }
	settle := func(r SettleRequest) error { _, err := endpoint.Settle(ctx, ref, r); return err }
	propose := func(epoch, target, floor int64, window, keep time.Duration) error {
		_, err := Terms{Epoch: epoch, Target: target, Floor: floor, Window: window, Keep: keep}.Proposal()
		return err
	}
	_, braces := endpoint.Peek(ctx, ShardKeys("a{b", "t", "limit"))
	_, tagless := endpoint.Peek(ctx, ShardKeys("a", "", "limit"))
	for name, err := range map[string]error{
		"nil":            take(nil),
		"no proposal":    take(&TakeRequest{}),
		"size 0":         take(&TakeRequest{Proposal: p, Groups: []Group{{Size: 0, Count: 1}}}),
		"count 0":        take(&TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: 0}}}),
		"size":           take(&TakeRequest{Proposal: p, Groups: []Group{{Size: MaxPermits + 1, Count: 1}}}),
		"count":          take(&TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: MaxPermits + 1}}}),
		"groups":         take(&TakeRequest{Proposal: p, Groups: make([]Group, MaxGroups+1)}),
		"back below 0":   settle(SettleRequest{Back: -1, At: 1}),
		"back before 0":  settle(SettleRequest{Back: 1, At: -1}),
		"charge of less": settle(SettleRequest{Charge: -1, Proposal: p}),
		"bare charge":    settle(SettleRequest{Charge: 1}),
		"owed":           settle(SettleRequest{Owed: 11 * MaxWindow}),
		"long mark":      settle(SettleRequest{Mark: strings.Repeat("m", 65)}),
		"mark in braces": settle(SettleRequest{Mark: "}"}),
		"epoch":          propose(MaxEpoch+1, 1, 1, time.Second, 0),
		"negative epoch": propose(-1, 1, 1, time.Second, 0),
		"target":         propose(1, MaxPermits+1, 1, time.Second, 0),
		"floor":          propose(1, 1, 2, time.Second, 0),
		"negative floor": propose(1, 1, -1, time.Second, 0),
		"short window":   propose(1, 1, 1, MinWindow-1, 0),
		"long window":    propose(1, 1, 1, MaxWindow+1, 0),
		"negative keep":  propose(1, 1, 1, time.Second, -1),
		"braces":         braces,
		"no tag":         tagless,
	} {
		if !errors.Is(err, ErrInvalidRequest) || !NotExecuted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
