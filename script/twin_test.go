package script

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// timed is a shard on a server whose clock a test holds: miniredis, the one of histories, or a real
// one.
type timed struct {
	server   interface{ SetTime(time.Time) }
	endpoint *Endpoint
	ref      ShardRef
}

func (m timed) at(now int64) context.Context {
	m.server.SetTime(time.UnixMicro(now))
	return context.Background()
}

// pacedTakes is how many the paced take served.
var pacedTakes atomic.Int64

func (m timed) take(now int64, r *TakeRequest) (TakeReply, error) {
	s := Section{Ref: m.ref, Request: r}
	m.endpoint.TakeAll(m.at(now), []*Section{&s})
	if s.paced {
		pacedTakes.Add(1)
	}
	return s.Reply, s.Err
}

func (m timed) stored() (head, ledger string) { return stored(m.endpoint.client, m.ref) }

// clocked is a client of a real server. Scripts are told TIME and uptime by it, and are otherwise
// the same.
type clocked struct {
	rueidis.Client
	now, uptime int64
}

// onClocked returns a shard on a real server that has been up for so many seconds.
func onClocked(client rueidis.Client, uptime int64, ref ShardRef) timed {
	c := &clocked{Client: client, uptime: uptime}
	return timed{server: c, endpoint: NewEndpoint(c), ref: ref}
}

func (c *clocked) SetTime(now time.Time) { c.now = now.UnixMicro() }

func (c *clocked) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 3 || clockedTexts[words[1]] == nil {
		return c.Client.Do(ctx, cmd)
	}
	keys, _ := strconv.Atoi(words[2])
	args := append(slices.Clone(words[3+keys:]), strconv.FormatInt(c.uptime, 10), strconv.FormatInt(c.now, 10))
	return clockedTexts[words[1]].Exec(ctx, c.Client, words[3:3+keys], args)
}

const timeRead = "= redis.call('TIME')\n" // into a local of which every script has its own name

var infoRead = regexp.MustCompile(`(?:redis\.p?)?call\('INFO', 'server'\)`)

// clockedTexts are the scripts of shards that read TIME, by what they are as they are, and by the
// names under which servers cache that. Every one must read it exactly once.
var clockedTexts = func() map[string]*rueidis.Lua {
	texts := map[string]*rueidis.Lua{}
	for _, p := range programs[calmProgram:] {
		if p.name == "drop" {
			continue
		}
		if strings.Count(p.text, timeRead) != 1 || strings.Count(p.text, "TIME'") != 1 {
			panic("the line that reads TIME is not isolated")
		}
		text := strings.Replace(p.text, timeRead, "= {0, table.remove(ARGV)}\nARGV.uptime = table.remove(ARGV)\n", 1)
		text = infoRead.ReplaceAllString(text, "('uptime_in_seconds:' .. ARGV.uptime)")
		if strings.Contains(text, "'INFO'") {
			panic("what reads INFO is not isolated")
		}
		// A ledger lives by the server's clock, which stands still for nobody.
		texts[p.sha] = rueidis.NewLuaScript(strings.ReplaceAll(text, constants["LIFE"], "3600000"))
		texts[p.text] = texts[p.sha]
	}
	return texts
}()

// do sends a command.
func do(client rueidis.Client, words ...string) rueidis.RedisResult {
	return client.Do(context.Background(), client.B().Arbitrary(words[0]).Args(words[1:]...).Build())
}

// lives returns the time to live of each key that exists, ms; below zero: for ever.
func lives(client rueidis.Client, ref ShardRef) (all []int64) {
	for _, key := range ref.keys() {
		if ms, _ := do(client, "PTTL", key).AsInt64(); ms != -2 { // 0: an error
			all = append(all, ms)
		}
	}
	return all
}

// stored returns what is stored of a state, and of a ledger in the order of its fields.
func stored(client rueidis.Client, ref ShardRef) (head, ledger string) {
	head, err := do(client, "GET", ref.head).ToString()
	fields, other := do(client, "HGETALL", ref.Ledger()).AsStrMap()
	if err != nil && !rueidis.IsRedisNil(err) || other != nil {
		panic(errors.Join(err, other))
	}
	return tidy(head), fmt.Sprint(fields)
}

// tidy takes out of the string of a log the entries that mean nothing, and gives its columns to one
// that has a single entry without them.
func tidy(head string) string {
	at := strings.IndexAny(head, ",;") + 1
	if at == 0 || !strings.Contains("lcw", head[:1]) {
		return head
	}
	own := head[at:]
	if head[at-1] == ',' {
		var n [2]int64
		columns.Once.Numbers(own, n[:])
		first := n[0]
		if head[0] == 'w' {
			window, _ := strconv.ParseInt(strings.Fields(head)[3], 10, 64)
			first -= first % window
		}
		text := columns.Packed.Append([]byte(head[:at-1]+";"), 0, 0, 0, n[0])
		return string(columns.Log.Append(text, 0, 1, first, n[1], n[0], 0, 0, first))
	}
	before := columns.Packed.Bytes()
	var n [7]int64
	columns.Log.Numbers(own[before:], n[:])
	from := columns.Log.Bytes() + int(n[5])*columns.Entry.Bytes()
	text := string(columns.Log.Append([]byte(head[:at]+own[:before]), 0, n[0], n[1], n[2], n[3], n[4], 0, n[6]))
	return text + own[from:from+max(int(n[0])-1, 0)*columns.Entry.Bytes()]
}

// agree runs one step on twin and server, and compares the replies and every byte that is stored.
// It returns the state.
func (s *stage) agree(t interface{ Fatalf(string, ...any) }, step step, twin *twin, server timed) (head string) {
	was := twin.head()
	want, got, err := s.play(step, twin, server)
	head, ledger := server.stored()
	if err != nil || !reflect.DeepEqual(want, got) || head != twin.head() || ledger != twin.accounts() {
		t.Fatalf("%v: %s: %v\ntwin   %+v\nserver %+v\nwas    %q\ntwin   %q %q\nserver %q %q", twin.algorithm, step, err,
			want, got, was, twin.head(), twin.accounts(), head, ledger)
	}
	return head
}

// play runs one step on twin and server.
func (s *stage) play(step step, twin *twin, server timed) (want, got any, err error) {
	switch {
	case step.take != nil:
		reply := twin.Take(step.now, step.take)
		s.saw(reply)
		want = reply
		got, err = server.take(step.now, step.take)
	case step.book != nil:
		reply := twin.Reserve(step.now, step.book)
		s.saw(reply.TakeReply)
		want = reply
		got, err = server.endpoint.Reserve(server.at(step.now), server.ref, step.book)
		if found := twin.Peek(step.now); reply.Granted > 0 && reply.Share == reply.Target && found.Free != reply.Free {
			err = fmt.Errorf("a look finds %d free beside the booking", found.Free)
		}
	case step.settle != nil:
		want = twin.Settle(step.now, *step.settle)
		got, err = server.endpoint.Settle(server.at(step.now), server.ref, *step.settle)
	case step.lose:
		err = do(server.endpoint.client, "DEL", server.ref.Ledger()).Error()
		twin.fair.ledger.Clear()
	case step.clear:
		twin.Clear(step.now)
		err = server.endpoint.Clear(server.at(step.now), server.ref)
	default:
		want = twin.Peek(step.now)
		got, err = server.endpoint.Peek(server.at(step.now), server.ref)
	}
	return want, got, err
}

func (s step) String() string {
	var p *Proposal
	request := any("peek or clear")
	switch {
	case s.take != nil:
		p, request = s.take.Proposal, *s.take
	case s.book != nil:
		p, request = s.book.Proposal, *s.book
	case s.settle != nil:
		p, request = s.settle.Proposal, *s.settle
	}
	return fmt.Sprintf("at %d %T %+v, proposed %+v", s.now, request, request, p)
}

func miniClient(tb testing.TB, m *miniredis.Miniredis) rueidis.Client {
	tb.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true,
	})
	must(tb, err)
	tb.Cleanup(client.Close)
	return client
}
