package script

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// message builds a reply of any shape from bytes, in the form in which rueidis keeps messages.
func message(tb testing.TB, elements [][]byte) []rueidis.RedisMessage {
	tb.Helper()
	buffer := append(make([]byte, 7), '*')
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(elements)))
	for _, e := range elements {
		buffer = append(buffer, e...)
	}
	var m rueidis.RedisMessage
	must(tb, m.CacheUnmarshalView(buffer))
	values, err := m.ToArray()
	must(tb, err)
	return values
}

func integer(n int64) []byte { return binary.BigEndian.AppendUint64([]byte{':'}, uint64(n)) }

func element(kind byte, s []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{kind}, uint64(len(s))), s...)
}

func null() []byte { return binary.BigEndian.AppendUint64([]byte{'_'}, 0) }

// elements cuts fuzz input into reply elements: mostly integers, of all sizes, some strings, nulls,
// errors and nested arrays.
func elements(data []byte) (out [][]byte) {
	for len(data) > 1 && len(out) < 100 {
		kind, n := data[0], min(int(data[0]>>4), len(data)-1)
		part := data[1 : 1+n]
		switch kind & 7 {
		case 5:
			out = append(out, element('$', part))
		case 6:
			out = append(out, null(), element('-', part))
		case 7:
			out = append(out, append(binary.BigEndian.AppendUint64([]byte{'*'}, 1), integer(1)...))
		default:
			var wide [8]byte
			copy(wide[8-min(n, 8):], part)
			out = append(out, integer(int64(binary.BigEndian.Uint64(wide[:]))))
		}
		data = data[1+n:]
	}
	return out
}

func parseAll(tb testing.TB, reply []rueidis.RedisMessage, groups []Group) []error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	for i := range programs {
		note(failure(&programs[i], reply, []string{"a", "b"}))
	}
	p, take := proposal(tb, 1, 1, MinWindow), AlgorithmSlidingLog.programOf(takeProgram) // its name stands for all
	_, err := parseTake(take, reply, &TakeRequest{Proposal: p, Groups: groups})
	note(err)
	_, err = (&SettleRequest{Back: 1, Charge: 1}).parse(take, reply)
	note(err)
	_, err = parsePeek(take, reply)
	note(err)
	_, err = parseLedger(take, reply)
	note(err)
	_, err = parseTake(take, reply, &TakeRequest{Proposal: p, Groups: groups, Callers: make([]Caller, 2)})
	note(err)
	s := &Section{Request: &TakeRequest{Proposal: p, Groups: groups, Callers: make([]Caller, 1)}}
	_, err = s.readPaced(reply)
	note(err)
	note(readCalm([]*Section{s}, reply))
	note(s.Err)
	_, err = parseVote(take, reply)
	note(err)
	_, err = parsePlaces(take, reply)
	note(err)
	return errs
}

func FuzzReply(f *testing.F) {
	f.Add([]byte{}, int64(1), int64(1))
	f.Add([]byte("\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01"), int64(1), int64(1))
	f.Add([]byte("\x80\xff\xff\xff\xff\xff\xff\xff\xff\x15b"), int64(-1), int64(math.MinInt64))
	f.Add([]byte("\x80\xff\xff\xff\xff\xff\xff\xff\xfc"), int64(-1), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, data []byte, size, count int64) {
		for _, err := range parseAll(t, message(t, elements(data)), []Group{{Size: size, Count: count}}) {
			known := errors.Is(err, ErrMalformedReply) || errors.Is(err, ErrForeignState)
			if refused := (*RefusedError)(nil); err != nil && !known && !errors.As(err, &refused) {
				t.Fatalf("an error of another kind: %v", err)
			}
		}
	})
}

func TestMalformedTakeReplies(t *testing.T) {
	p := proposal(t, 1, 10, MinWindow)
	r := asks(p, 2, 3)
	good := []int64{1, 0, 5, 4, 9, 1_700_000_000_000_000, 10, 10, 10, 0, 1, 10, 10, 0, 0}
	read := func(size int, change map[int]int64) (TakeReply, error) {
		var elements [][]byte
		for i, n := range append(slices.Clone(good), 1)[:size] {
			if other, changed := change[i]; changed {
				n = other
			}
			elements = append(elements, integer(n))
		}
		return parseTake(&program{}, message(t, elements), r)
	}
	if reply, err := read(15, nil); err != nil || reply.Granted != 4 || reply.Free != 1 {
		t.Fatalf("%+v %v", reply, err)
	}
	for _, size := range []int{13, 14, 16} { // 14: of a call that did nothing
		if reply, err := read(size, nil); !errors.Is(err, ErrMalformedReply) {
			t.Errorf("of %d numbers: %+v %v", size, reply, err)
		}
	}
	for name, change := range map[string]map[int]int64{
		"unknown status": {0: 4}, "negative free": {2: -1}, "other grants": {3: 3}, "more free than the share": {12: 4},
		"negative reset": {8: -1}, "retry below never": {7: -2}, "a time that would overflow": {5: math.MaxInt64},
		"a delay that would overflow": {6: math.MaxInt64/1000 + 1},
	} {
		if reply, err := read(15, change); !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%s: %+v %v", name, reply, err)
		}
	}
}

func TestStatusesBelowZero(t *testing.T) {
	var state *StateError
	var refused *RefusedError
	for i, reply := range [][][]byte{
		{integer(-1), integer(2)}, {integer(-2), element('$', []byte("OOM"))},
		{}, {null()}, {integer(-1)}, {integer(-1), integer(4)}, {integer(-1), null()}, {integer(-2), integer(1)},
		{integer(-3), integer(1)},
	} {
		err := failure(AlgorithmSlidingLog.programOf(takeProgram), message(t, reply), []string{"a", "b"})
		isState := errors.As(err, &state) && state.Key == "b"
		if isState != (i == 0) || errors.As(err, &refused) != (i == 1) || errors.Is(err, ErrMalformedReply) != (i > 1) ||
			NotExecuted(err) != (i < 2) {
			t.Errorf("%q: %v", reply, err)
		}
	}
}

// The parts of participants are divided by the window of their limit.
func TestALedgerWithoutAWindowIsMalformed(t *testing.T) {
	for window, sound := range map[int64]bool{0: false, 1: true} {
		reply := message(t, [][]byte{integer(int64(Absent)), integer(1), integer(1), integer(window),
			binary.BigEndian.AppendUint64([]byte{'*'}, 0)})
		_, err := parseLedger(&program{}, reply)
		if sound != (err == nil) || !sound && !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%d us: %v", window, err)
		}
	}
}

func TestMalformedPacedReplies(t *testing.T) {
	p := proposal(t, 1, 10, MinWindow)
	const now, free, next, reset, early, granted, retry, grants, hint = 0, 1, 2, 3, 4, 5, 6, 7, 8
	read := func(change map[int]int64) error {
		numbers := []int64{now: 1_700_000_000_000_000, free: 5, next: 10, reset: 20, granted: 1, grants: 1, hint: 0}
		for at, n := range change {
			numbers[at] = n
		}
		told := columns.Told.Append(columns.Once.Append(nil, 0, numbers[now]), 0, numbers[free:granted]...)
		for _, n := range numbers[granted:] {
			told = columns.Paced.Append(told, 0, n)
		}
		s := Section{Request: asking(p, 1, 2)}
		_, err := s.readPaced(message(t, [][]byte{element('$', told)}))
		return err
	}
	for _, good := range []map[int]int64{nil, {free: 10, reset: 20, next: 20}, {granted: 2, grants: 2, free: 2}} {
		if err := read(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	window := int64(MinWindow / time.Microsecond)
	for name, change := range map[string]map[int]int64{
		"more free than the share": {free: 11}, "other grants": {granted: 2}, "more granted than free": {free: 0},
		"more grants than asks": {granted: 3, grants: 3}, "a time that none has": {now: maxTime + 1},
		"permits after all are there": {next: 21}, "all after a window": {reset: window + 1}, "no sign": {early: 2},
		"a retry after a window": {retry: window + 1},
	} {
		if err := read(change); !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
