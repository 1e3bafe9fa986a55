package script

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A server refuses something: one command that scripts call, or all writes as it is full or a
// replica. Whatever a script is refused goes out in the server's own words, only foreign state is
// called that, and what is said to be not executed was not. What writes nothing goes on.
func TestAMissingPermissionIsToldInTheServersOwnWords(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	admin := server.Client(t)
	sure := map[string]int{} // by what is refused: how often it was sure that nothing was executed
	try := func(refused string, a Algorithm, e *Endpoint, begins, ends []string) {
		for state, prepare := range states {
			for name, operation := range operations {
				command(t, admin, "FLUSHALL")
				ref := a.Keys("", "t", "limit")
				prepare(t, NewEndpoint(admin), ref)
				before := everything(t, admin)
				command(t, admin, begins...)
				err := operation(t, e, ref)
				command(t, admin, ends...)
				where := strings.Join([]string{refused, a.String(), state, name}, ", ")
				if err != nil {
					checkRefusal(t, where, err)
				}
				after := everything(t, admin)
				if NotExecuted(err) {
					sure[refused]++
					if after != before {
						t.Errorf("%s: not executed, but changed: %v\n%s\n%s", where, err, before, after)
					}
				}
				switch {
				case refused == "INFO" && state == "absent" && name == "take" && err == nil:
					t.Errorf("%s: a state begins, and the server may have lost it", where)
				case len(ends) == 1:
				case err != nil && (!NotExecuted(err) || state == "contended" && name == "take"):
					t.Errorf("%s: %v", where, err)
				case err == nil && name != "take of one that contends": // what is not written then harms fairness only
					must(t, operation(t, e, ref))
					if again := everything(t, admin); again != after {
						t.Errorf("%s: it should have been refused\n%s\n%s", where, after, again)
					}
				}
			}
		}
	}
	for _, denied := range scriptCommands() {
		// A user of its own: what a connection may do does not change under it.
		command(t, admin, "ACL", "SETUSER", "no-"+denied, "on", "nopass", "~*", "+@all", "-"+strings.ToLower(denied))
		option := server.ClientOption()
		option.Username, option.Password = "no-"+denied, "any"
		client, err := rueidis.NewClient(option)
		must(t, err)
		needed := slices.Contains([]string{"GET", "GETRANGE", "SET", "TIME"}, denied)
		if err := NewEndpoint(client).Probe(t.Context(), "", "t"); (err != nil) != needed {
			t.Errorf("%s: the probe says %v", denied, err)
		}
		for a := range algorithms {
			if strings.Contains(a.programOf(takeProgram).text+a.programOf(dropProgram).text, "'"+denied+"'") {
				try(denied, a, NewEndpoint(client), []string{"PING"}, []string{"PING"})
			}
		}
		client.Close()
	}
	for a := range algorithms {
		try("full", a, NewEndpoint(admin), []string{"CONFIG", "SET", "maxmemory", "1"},
			[]string{"CONFIG", "SET", "maxmemory", "0"})
		try("replica", a, NewEndpoint(admin), []string{"REPLICAOF", "127.0.0.1", "1"},
			[]string{"REPLICAOF", "NO", "ONE"})
	}
	for _, name := range []string{"GET", "SET", "DEL", "HGET", "INFO", "full", "replica"} {
		if sure[name] == 0 {
			t.Errorf("%s: it was never sure that nothing was executed", name)
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
	if !ok || !regexp.MustCompile("permission|can't run this command|^OOM |^READONLY ").MatchString(said) {
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
	offer := Terms{Epoch: epoch, Target: target, Floor: target, Window: time.Hour, Keep: time.Hour,
		Quarantine: time.Second, Algorithm: a}
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
	"settle": func(t *testing.T, e *Endpoint, ref ShardRef) error {
		r := SettleRequest{Back: 1, At: taken.RefundAt(0), Mark: "m", MarkFor: time.Hour}
		_, err := e.Settle(t.Context(), ref, r)
		return err
	},
	"peek":   func(t *testing.T, e *Endpoint, ref ShardRef) error { _, err := e.Peek(t.Context(), ref); return err },
	"ledger": func(t *testing.T, e *Endpoint, ref ShardRef) error { _, err := e.Ledger(t.Context(), ref); return err },
	"clear":  func(t *testing.T, e *Endpoint, ref ShardRef) error { return e.Clear(t.Context(), ref) },
	"drop":   func(t *testing.T, e *Endpoint, ref ShardRef) error { return e.Drop(t.Context(), ref) },
	"vote": func(t *testing.T, e *Endpoint, _ ShardRef) error {
		r := VoteRequest{Kind: majority.Prepare, Ballot: majority.Ballot{Round: 1, Proposer: 1}, Keep: time.Hour}
		_, err := e.Vote(t.Context(), VoteKey("", "t", "g", "limit"), r)
		return err
	},
	"places": func(t *testing.T, e *Endpoint, _ ShardRef) error {
		_, err := e.Places(t.Context(), PlacesKey("", "t"), PlacesRequest{Text: "x", Keep: time.Hour})
		return err
	},
}

// taken is what was granted last.
var taken TakeReply

func take(t *testing.T, e *Endpoint, ref ShardRef, caller Caller) error {
	r := ones(hourly(t, ref.algorithm, 1, 4), 1)
	if r.Known = 24 * time.Hour; caller.ID != "" {
		r.Callers = []Caller{caller}
	}
	reply, err := e.Take(t.Context(), ref, r)
	if reply.Granted > 0 {
		taken = reply
	}
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
      or kind == 'list' and redis.call('LRANGE', key, 0, -1) or redis.call('HGETALL', key), ' ')
  all[#all + 1] = key .. ' = ' .. value
end
table.sort(all)
return table.concat(all, '\n')`, "0").ToString()
	must(t, err)
	return text
}
