package script

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// head renders the twin's state as the scripts store it.
func (l *SlidingLog) head() string {
	if l.epoch == 0 {
		return ""
	}
	oldest := int64(0)
	if len(l.closed) > 0 {
		oldest = l.closed[0].date
	}
	return columns.Head.Sprint(l.epoch, l.target, l.share, l.start, l.window,
		l.closedUntil, l.offset, l.touched, len(l.closed), l.base, oldest, l.opened, l.before, l.newest, l.total,
		l.fair.contended) + l.waiting()
}

// waiting renders what the twin has booked.
func (l *SlidingLog) waiting() (text string) {
	for _, b := range l.queue {
		text += columns.Pending.Sprint(b.date, b.opened, b.permits, b.base)
	}
	return text
}

// log renders the twin's closed entries as the scripts store them.
func (l *SlidingLog) log() []string {
	members := []string{}
	for _, e := range l.closed {
		members = append(members, columns.Entry.Sprint(e.date, e.before, e.date-e.opened))
	}
	return members
}

// clockedShard is a shard on a server whose clock a test holds.
type clockedShard interface {
	counter
	peek(now int64) (PeekReply, error)
	clear(now int64) (ClearReply, error)
	standings(now int64) (LedgerReply, error)
	lose() // the ledger
}

// redisLog is a sliding log on such a server.
type redisLog interface {
	clockedShard
	stored() (head string, log []string, ledger string)
	lives() []int64 // time to live of each key that exists, ms; below zero: for ever
}

// emulated is a sliding log on a server that lets tests set its clock, miniredis as a rule: the
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
func (m emulated) peek(now int64) (PeekReply, error)   { return m.endpoint.Peek(m.at(now), m.ref) }
func (m emulated) clear(now int64) (ClearReply, error) { return m.endpoint.Clear(m.at(now), m.ref) }
func (m emulated) stored() (string, []string, string)  { return stored(m.endpoint.client, m.ref) }
func (m emulated) lose()                               { lose(m.endpoint.client, m.ref) }
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

const (
	timeLine = "local time = redis.call('TIME')\n"
	infoLine = "local info = redis.pcall('INFO', 'server')\n"
)

// clockedText replaces the two lines that read the server's clocks. Every script must hold the
// first exactly once.
func clockedText(number int) string {
	text := programs[number].text
	if strings.Count(text, timeLine) != 1 || strings.Count(text, "TIME'") != 1 {
		panic("the line that reads TIME is not isolated")
	}
	text = strings.Replace(text, timeLine, "local time = {0, table.remove(ARGV)}\n", 1)
	return strings.Replace(text, infoLine, "local info = 'uptime_in_seconds:' .. table.remove(ARGV)\n", 1)
}

var clockedTexts = func() map[int]*rueidis.Lua {
	texts := map[int]*rueidis.Lua{}
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
	keys := slices.DeleteFunc(slices.Clone(all[:]), func(k string) bool { return k == "" })
	reply, err := clockedTexts[n].Exec(context.Background(), c.client, keys, args).ToArray()
	if err != nil {
		return nil, err
	}
	return reply, failure(&programs[n], reply, all)
}

func (c clocked) take(now int64, r *TakeRequest) (TakeReply, error) {
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
	return parsePeek(&programs[peekProgram], reply)
}

func (c clocked) clear(now int64) (ClearReply, error) {
	reply, err := c.run(clearProgram, now)
	if err != nil {
		return ClearReply{}, err
	}
	return parseClear(reply)
}

func (c clocked) standings(now int64) (LedgerReply, error) {
	reply, err := c.run(ledgerProgram, now)
	if err != nil {
		return LedgerReply{}, err
	}
	return parseLedger(reply)
}

func (c clocked) lose()                              { lose(c.client, c.ref) }
func (c clocked) stored() (string, []string, string) { return stored(c.client, c.ref) }
func (c clocked) lives() []int64                     { return lives(c.client, c.ref) }

func lives(client rueidis.Client, ref ShardRef) (all []int64) {
	for _, key := range []string{ref.head, ref.log, ref.ledger} {
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
	if err := client.Do(context.Background(), client.B().Del().Key(ref.ledger).Build()).Error(); err != nil {
		panic(err)
	}
}

// ledgerOf returns what is stored of a ledger, in the order of its fields.
func ledgerOf(client rueidis.Client, ref ShardRef) string {
	fields, err := client.Do(context.Background(), client.B().Hgetall().Key(ref.ledger).Build()).AsStrMap()
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(fields)
}

func stored(client rueidis.Client, ref ShardRef) (head string, log []string, ledger string) {
	ctx := context.Background()
	head, err := client.Do(ctx, client.B().Get().Key(ref.head).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		panic(err)
	}
	log, err = client.Do(ctx, client.B().Zrange().Key(ref.log).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		panic(err)
	}
	return head, log, ledgerOf(client, ref)
}

// play runs one step on twin and server; forget clears the twin's ledger.
func (s *stage) play(step step, twin Twin, server clockedShard, forget func()) (want, got any, err error) {
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
		want = twin.Clear(step.now)
		got, err = server.clear(step.now)
	default:
		want = twin.Peek(step.now)
		got, err = server.peek(step.now)
	}
	return want, got, err
}

// agree runs one generated sequence on twin and server and compares every reply, and every byte
// that is stored.
func agree(t *rapid.T, twin *SlidingLog, server redisLog) {
	s := newStage(t)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		for _, step := range s.steps() {
			want, got, err := s.play(step, twin, server, twin.fair.ledger.Clear)
			if err != nil {
				head, log, ledger := server.stored()
				t.Fatalf("%s: %v\nstored %q %q %q\ntwin   %q", describe(step), err, head, log, ledger, twin.head())
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s:\ntwin   %+v\nserver %+v\ntwin's head %q", describe(step), want, got, twin.head())
			}
			if len(twin.closed) > mostPending+exactShare+resolution {
				t.Fatalf("%d entries", len(twin.closed))
			}
		}
		for _, ms := range server.lives() {
			if ms <= 0 || ms > milliseconds(12*MaxWindow+keep) {
				t.Fatalf("a key lives %d ms", ms)
			}
		}
		head, log, ledger := server.stored()
		if got, err := server.standings(s.node); err != nil || !reflect.DeepEqual(got, twin.Ledger(s.node)) {
			t.Fatalf("standings: %v\ntwin   %+v\nserver %+v", err, twin.Ledger(s.node), got)
		}
		if text := fmt.Sprint(twin.fair.ledger.Fields()); ledger != text {
			t.Fatalf("ledger:\ntwin   %q\nserver %q", text, ledger)
		}
		if head != twin.head() || !reflect.DeepEqual(log, twin.log()) {
			t.Fatalf("stored:\ntwin   %q %q\nserver %q %q", twin.head(), twin.log(), head, log)
		}
	}
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

// onMiniredis returns a property: twin and scripts agree on miniredis.
func onMiniredis(tb testing.TB) func(*rapid.T) {
	m := miniredis.RunT(tb)
	endpoint := NewEndpoint(miniClient(tb, m))
	return func(t *rapid.T) {
		m.FlushAll()
		agree(t, &SlidingLog{}, emulated{server: m, endpoint: endpoint, ref: ShardKeys("", "t", "limit")})
	}
}

func TestTwinAgreesWithMiniredis(t *testing.T) { rapid.Check(t, onMiniredis(t)) }

func FuzzTakeSequence(f *testing.F) { f.Fuzz(rapid.MakeFuzz(onMiniredis(f))) }

func TestTwinAgreesWithRedis(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		uptime := rapid.SampledFrom([]int64{0, 1, 30, 1_000_000_000}).Draw(t, "uptime")
		twin := &SlidingLog{UptimeKnown: true, Uptime: time.Duration(uptime) * time.Second}
		ref := ShardKeys("", "t", strconv.Itoa(run))
		agree(t, twin, clocked{client: client, uptime: uptime, ref: ref})
		client.Do(context.Background(), client.B().Del().Key(ref.head, ref.log, ref.ledger).Build())
	})
}
