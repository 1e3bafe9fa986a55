package script

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// clockedShard is a shard on a server whose clock a test holds.
type clockedShard interface {
	take(now int64, r *TakeRequest) (TakeReply, error)
	reserve(now int64, r *ReserveRequest) (ReserveReply, error)
	settle(now int64, r SettleRequest) (SettleReply, error)
	peek(now int64) (PeekReply, error)
	clear(now int64) error
	standings(now int64) (LedgerReply, error)
	lose() // the ledger
	stored() (head, ledger string)
	lives() []int64 // time to live of each key that exists, ms; below zero: for ever
}

// emulated is a shard on a server that lets tests set its clock, miniredis as a rule: the
// scripts run as they are.
type emulated struct {
	server   interface{ SetTime(time.Time) }
	endpoint *Endpoint
	ref      ShardRef
}

func (m emulated) at(now int64) context.Context {
	m.server.SetTime(time.UnixMicro(now))
	return context.Background()
}
func (m emulated) take(now int64, r *TakeRequest) (TakeReply, error) {
	return m.endpoint.Take(m.at(now), m.ref, r)
}
func (m emulated) reserve(now int64, r *ReserveRequest) (ReserveReply, error) {
	return m.endpoint.Reserve(m.at(now), m.ref, r)
}
func (m emulated) settle(now int64, r SettleRequest) (SettleReply, error) {
	return m.endpoint.Settle(m.at(now), m.ref, r)
}
func (m emulated) peek(now int64) (PeekReply, error) { return m.endpoint.Peek(m.at(now), m.ref) }
func (m emulated) clear(now int64) error             { return m.endpoint.Clear(m.at(now), m.ref) }
func (m emulated) stored() (string, string)          { return stored(m.endpoint.client, m.ref) }
func (m emulated) lose()                             { lose(m.endpoint.client, m.ref) }
func (m emulated) standings(now int64) (LedgerReply, error) {
	return m.endpoint.Ledger(m.at(now), m.ref)
}
func (m emulated) lives() []int64 { return lives(m.endpoint.client, m.ref) }

// clocked is a shard on a real server, by scripts that take TIME and uptime from their last
// arguments and are otherwise the same.
type clocked struct {
	client rueidis.Client
	uptime int64
	ref    ShardRef
}

const timeRead = "= redis.call('TIME')\n" // into a local of which every script has its own name

var infoRead = regexp.MustCompile(`(?:redis\.p?)?call\('INFO', 'server'\)`)

// clockedText replaces what reads the server's clocks. Every script must read TIME exactly once.
func clockedText(number int) string {
	text := programs[number].text
	if strings.Count(text, timeRead) != 1 || strings.Count(text, "TIME'") != 1 {
		panic("the line that reads TIME is not isolated")
	}
	text = strings.Replace(text, timeRead, "= {0, table.remove(ARGV)}\n", 1)
	text = infoRead.ReplaceAllString(text, "('uptime_in_seconds:' .. table.remove(ARGV))")
	if strings.Contains(text, "'INFO'") {
		panic("what reads INFO is not isolated")
	}
	// A ledger lives by the server's clock, which stands still for nobody.
	return strings.ReplaceAll(text, constants["LIFE"], "3600000")
}

// pacedTakes is how many the paced take served.
var pacedTakes atomic.Int64

var clockedTexts = func() map[int]*rueidis.Lua {
	texts := map[int]*rueidis.Lua{}
	for _, n := range []int{calmProgram, pacedProgram} {
		texts[n] = rueidis.NewLuaScript(clockedText(n))
	}
	for a := AlgorithmSlidingLog; a < algorithms; a++ {
		for _, operation := range []int{takeProgram, reserveProgram, settleProgram, peekProgram, clearProgram,
			ledgerProgram} {
			n := ShardRef{algorithm: a}.program(operation)
			texts[n] = rueidis.NewLuaScript(clockedText(n))
		}
	}
	return texts
}()

func (c clocked) run(operation int, now int64, args ...string) ([]rueidis.RedisMessage, error) {
	args = append(args, strconv.FormatInt(now, 10))
	n, all := c.ref.program(operation), c.ref.keys()
	if operation == takeProgram || operation == reserveProgram || operation == settleProgram {
		all = c.ref.creating(&TakeRequest{})
	}
	reply, err := clockedTexts[n].Exec(context.Background(), c.client, all[:countKeys(all)], args).ToArray()
	if err != nil {
		return nil, err
	}
	return reply, failure(&programs[n], reply, all)
}

// take tries all takes that may serve it, in their order.
func (c clocked) take(now int64, r *TakeRequest) (TakeReply, error) {
	s, clocks := Section{Ref: c.ref, Request: r}, []string{strconv.FormatInt(c.uptime, 10), strconv.FormatInt(now, 10)}
	if chooseFull([]*Section{&s}); !s.full {
		_, args := newCalmCall([]*Section{&s})
		args = append(args, clocks...)
		reply, err := programs[calmProgram].read(clockedTexts[calmProgram].Exec(context.Background(), c.client,
			[]string{c.ref.head, c.ref.whole(r)}, args))
		if err == nil {
			err = readCalm([]*Section{&s}, reply)
		}
		if err != nil || !s.full {
			return s.Reply, cmp.Or(err, s.Err)
		}
	}
	if r.Contended = true; r.paced() {
		keys := c.ref.keys()
		reply, err := programs[pacedProgram].read(clockedTexts[pacedProgram].Exec(context.Background(), c.client,
			keys[:countKeys(keys)], append(r.pacedArguments(), clocks...)))
		if err != nil {
			return TakeReply{}, err
		}
		if paced, err := s.readPaced(reply); paced {
			pacedTakes.Add(1)
			return s.Reply, err
		}
	}
	reply, err := c.run(takeProgram, now, append(r.arguments(nil), strconv.FormatInt(c.uptime, 10))...)
	if err != nil {
		return TakeReply{}, err
	}
	return parseTake(reply, r)
}

func (c clocked) reserve(now int64, r *ReserveRequest) (ReserveReply, error) {
	reply, err := c.run(reserveProgram, now, append(r.arguments(nil), strconv.FormatInt(c.uptime, 10))...)
	if err != nil {
		return ReserveReply{}, err
	}
	return parseReserve(reply, r)
}

func (c clocked) settle(now int64, r SettleRequest) (SettleReply, error) {
	args := append(r.arguments(c.ref.algorithm, nil), strconv.FormatInt(c.uptime, 10))
	reply, err := c.run(settleProgram, now, args...)
	if err != nil {
		return SettleReply{}, err
	}
	return parseSettle(reply, &r)
}

func (c clocked) peek(now int64) (PeekReply, error) {
	reply, err := c.run(peekProgram, now)
	if err != nil {
		return PeekReply{}, err
	}
	return parsePeek(&programs[recordPrograms+peekProgram], reply)
}

func (c clocked) clear(now int64) error {
	_, err := c.run(clearProgram, now)
	return err
}

func (c clocked) standings(now int64) (LedgerReply, error) {
	reply, err := c.run(ledgerProgram, now)
	if err != nil {
		return LedgerReply{}, err
	}
	return parseLedger(reply)
}

func (c clocked) lose()                    { lose(c.client, c.ref) }
func (c clocked) stored() (string, string) { return stored(c.client, c.ref) }
func (c clocked) lives() []int64           { return lives(c.client, c.ref) }

func lives(client rueidis.Client, ref ShardRef) (all []int64) {
	for _, key := range []string{ref.head, ref.Ledger()} {
		ms, err := client.Do(context.Background(), client.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil {
			panic(err)
		}
		if ms != -2 {
			all = append(all, ms)
		}
	}
	return all
}

func lose(client rueidis.Client, ref ShardRef) {
	if err := client.Do(context.Background(), client.B().Del().Key(ref.Ledger()).Build()).Error(); err != nil {
		panic(err)
	}
}

// ledgerOf returns what is stored of a ledger, in the order of its fields.
func ledgerOf(client rueidis.Client, ref ShardRef) string {
	fields, err := client.Do(context.Background(), client.B().Hgetall().Key(ref.Ledger()).Build()).AsStrMap()
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(fields)
}

func stored(client rueidis.Client, ref ShardRef) (head, ledger string) {
	head, err := client.Do(context.Background(), client.B().Get().Key(ref.head).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		panic(err)
	}
	return tidy(head), ledgerOf(client, ref)
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

// play runs one step on twin and server; forget clears the twin's ledger.
func (s *stage) play(step step, twin twin, server clockedShard, forget func()) (want, got any, err error) {
	switch {
	case step.take != nil:
		reply := twin.Take(step.now, step.take)
		s.saw(step.take, reply)
		want = reply
		got, err = server.take(step.now, step.take)
	case step.book != nil:
		reply := twin.Reserve(step.now, step.book)
		s.saw(&TakeRequest{}, reply.TakeReply)
		want = reply
		got, err = server.reserve(step.now, step.book)
	case step.settle != nil:
		want = twin.Settle(step.now, *step.settle)
		got, err = server.settle(step.now, *step.settle)
	case step.lose:
		server.lose()
		forget()
	case step.clear:
		twin.Clear(step.now)
		err = server.clear(step.now)
	default:
		want = twin.Peek(step.now)
		got, err = server.peek(step.now)
	}
	return want, got, err
}

func describe(s step) string {
	switch {
	case s.take != nil:
		return fmt.Sprintf("at %d take %+v %+v", s.now, *s.take.Proposal, *s.take)
	case s.book != nil:
		return fmt.Sprintf("at %d reserve %+v %+v", s.now, *s.book.Proposal, *s.book)
	case s.settle != nil && s.settle.Proposal != nil:
		return fmt.Sprintf("at %d charge %+v %+v", s.now, *s.settle.Proposal, *s.settle)
	case s.settle != nil:
		return fmt.Sprintf("at %d settle %+v", s.now, *s.settle)
	case s.clear:
		return fmt.Sprintf("at %d clear", s.now)
	}
	return fmt.Sprintf("at %d peek", s.now)
}

func miniClient(tb testing.TB, m *miniredis.Miniredis) rueidis.Client {
	tb.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}
