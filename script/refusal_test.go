package script

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A server without one permission: whatever a script is refused goes out in the server's own
// words, only foreign state is called that, and what is said to be not executed was not.
func TestAMissingPermissionIsToldInTheServersOwnWords(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	admin := server.Client(t)
	sure := map[string]int{} // by command: how often it was sure that nothing was executed
	for _, denied := range scriptCommands() {
		// A user of its own: what a connection may do does not change under it.
		command(t, admin, "ACL", "SETUSER", "no-"+denied, "on", "nopass", "~*", "+@all", "-"+strings.ToLower(denied))
		option := server.ClientOption()
		option.Username, option.Password = "no-"+denied, "any"
		client, err := rueidis.NewClient(option)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEndpoint(client)
		for a := range algorithms {
			if !strings.Contains(a.programOf(takeProgram).text+a.programOf(dropProgram).text, "'"+denied+"'") {
				continue // it does without
			}
			for state, prepare := range states {
				for name, operation := range operations {
					command(t, admin, "FLUSHALL")
					ref := a.Keys("", "t", "limit")
					prepare(t, NewEndpoint(admin), ref)
					before := everything(t, admin)
					err := operation(t, e, ref)
					where := strings.Join([]string{denied, a.String(), state, name}, ", ")
					if err != nil {
						checkRefusal(t, where, err)
					}
					if NotExecuted(err) {
						sure[denied]++
						after := everything(t, admin)
						if after != before {
							t.Errorf("%s: not executed, but changed: %v\n%s\n%s", where, err, before, after)
						}
					}
				}
			}
		}
		client.Close()
	}
	for _, name := range []string{"GET", "SET", "DEL", "HGET"} {
		if sure[name] == 0 {
			t.Errorf("without %s it was never sure that nothing was executed", name)
		}
	}
	t.Log(sure)
}

func checkRefusal(t *testing.T, where string, err error) {
	t.Helper()
	text := err.Error()
	if errors.Is(err, ErrMalformedReply) && !NotExecuted(err) { // it has written
		return
	}
	if errors.Is(err, ErrForeignState) {
		t.Errorf("%s: %v", where, err)
	}
	if strings.Contains(text, "user_script") || strings.ContainsAny(text, "\r\n") || strings.Contains(text, ": -") {
		t.Errorf("%s: %q", where, text)
	}
	said, ok := Said(err)
	if !ok || !strings.Contains(said, "permission") && !strings.Contains(said, "can't run this command") {
		t.Errorf("%s: the server said %q, %t", where, said, ok)
	}
}

// scriptCommands are those that scripts call.
func scriptCommands() (names []string) {
	for _, p := range programs {
		calls := regexp.MustCompile(`\bp?call\('([A-Z]+)'|\{'([A-Z]+)', KEYS`)
		for _, call := range calls.FindAllStringSubmatch(p.text, -1) {
			names = append(names, call[1]+call[2])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hourly is a proposal of so many permits an hour.
func hourly(t *testing.T, a Algorithm, epoch, target int64) *Proposal {
	offer := Terms{Epoch: epoch, Target: target, Floor: target, Window: time.Hour, Keep: time.Hour, Quarantine: true,
		Algorithm: a}
	if a.Bursty() {
		offer.Burst = 20
	}
	return terms(t, offer)
}

// states are what an operation may find.
var states = map[string]func(*testing.T, *Endpoint, ShardRef){
	"absent": func(*testing.T, *Endpoint, ShardRef) {},
	"used": func(t *testing.T, e *Endpoint, ref ShardRef) {
		for range 3 {
			must(t, take(t, e, ref, Caller{}))
		}
	},
	"contended": func(t *testing.T, e *Endpoint, ref ShardRef) {
		for range 5 {
			for _, id := range []string{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"} {
				must(t, take(t, e, ref, Caller{ID: id, Weight: 1000}))
			}
		}
	},
	"booked ahead": func(t *testing.T, e *Endpoint, ref ShardRef) {
		for range 3 {
			must(t, take(t, e, ref, Caller{}))
		}
		for range 2 {
			must(t, reserve(t, e, ref))
		}
	},
}

// operations are made by a user that lacks a permission.
var operations = map[string]func(*testing.T, *Endpoint, ShardRef) error{
	"take": func(t *testing.T, e *Endpoint, ref ShardRef) error { return take(t, e, ref, Caller{}) },
	"take of one that contends": func(t *testing.T, e *Endpoint, ref ShardRef) error {
		return take(t, e, ref, Caller{ID: "aaaaaaaaaaaaaaaa", Weight: 1000})
	},
	"take under a new epoch": func(t *testing.T, e *Endpoint, ref ShardRef) error {
		_, err := e.Take(t.Context(), ref, ones(hourly(t, ref.algorithm, 2, 2), 1))
		return err
	},
	"reserve": reserve,
	"refund": func(t *testing.T, e *Endpoint, ref ShardRef) error {
		now, err := command(t, e.client, "PING").ToString()
		if now == "" {
			return err
		}
		peek, err := e.Peek(t.Context(), ref)
		if err != nil || len(peek.Releases) == 0 {
			return err
		}
		_, err = e.Settle(t.Context(), ref,
			SettleRequest{Back: 1, At: clock.ServerTime(time.Now().UnixMicro() -
				(peek.Window - peek.Releases[0].In).Microseconds())})
		return err
	},
	"peek":   func(t *testing.T, e *Endpoint, ref ShardRef) error { _, err := e.Peek(t.Context(), ref); return err },
	"ledger": func(t *testing.T, e *Endpoint, ref ShardRef) error { _, err := e.Ledger(t.Context(), ref); return err },
	"clear":  func(t *testing.T, e *Endpoint, ref ShardRef) error { return e.Clear(t.Context(), ref) },
	"drop":   func(t *testing.T, e *Endpoint, ref ShardRef) error { return e.Drop(t.Context(), ref) },
	"vote": func(t *testing.T, e *Endpoint, _ ShardRef) error {
		r := VoteRequest{Kind: VotePrepare, Ballot: VoteBallot{1, 1}, Keep: time.Hour}
		_, err := e.Vote(t.Context(), VoteKey("", "t", "g", "limit"), r)
		return err
	},
	"places": func(t *testing.T, e *Endpoint, _ ShardRef) error {
		_, err := e.Places(t.Context(), PlacesKey("", "t"), PlacesRequest{Text: "x", Keep: time.Hour})
		return err
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, e *Endpoint, ref ShardRef, caller Caller) error {
	r := ones(hourly(t, ref.algorithm, 1, 4), 1)
	if caller.ID != "" {
		r.Callers = []Caller{caller}
	}
	_, err := e.Take(t.Context(), ref, r)
	return err
}

func reserve(t *testing.T, e *Endpoint, ref ShardRef) error {
	_, err := e.Reserve(t.Context(), ref, &ReserveRequest{
		Proposal: hourly(t, ref.algorithm, 1, 4), Permits: 2, MaxDelay: 3 * time.Hour,
	})
	return err
}

// everything is what all keys hold.
func everything(t *testing.T, client rueidis.Client) string {
	t.Helper()
	text, err := command(t, client, "EVAL", `
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key)
    or table.concat(kind == 'zset' and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
      or redis.call('HGETALL', key), ' ')
  all[#all + 1] = key .. ' = ' .. value
end
table.sort(all)
return table.concat(all, '\n')`, "0").ToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
