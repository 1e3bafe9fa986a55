package script

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/columns"
)

var logAlgorithms = []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter, AlgorithmFixedWindow}

// Whatever byte of a state is damaged, the sections before and behind it are served. If it is one
// of those that every call reads, the calm take grants nothing that the full take does not.
func TestADamagedByteIsLeftToTheFullTake(t *testing.T) {
	t.Parallel()
	const now = epoch0
	m := miniredis.RunT(t)
	client := miniClient(t, m)
	endpoint := NewEndpoint(client)
	for _, a := range logAlgorithms {
		p := terms(t, Terms{Epoch: 1, Target: 40, Floor: 40, Window: time.Second, Keep: keep, Algorithm: a})
		ref := func(name string) ShardRef { return a.Keys("", "t", name) }
		grants := func(n int64) (state string) {
			for i := range n {
				timed{m, endpoint, ref("good")}.at(now + (30-n+i)*60_000)
				_, err := endpoint.Take(t.Context(), ref("good"), ones(p, 2))
				must(t, err)
			}
			m.SetTime(time.UnixMicro(now + 30*60_000 + 1))
			state, err := command(t, client, "GETDEL", ref("good").head).ToString()
			must(t, err)
			return state
		}
		once, long := grants(1), grants(30) // entries in front that have left, and more than are read at first
		if len(once) > 48 || once[len(once)-1] != 2 {
			t.Errorf("%v: a log of one grant is %q", a, once)
		}
		for _, good := range []string{once, long} {
			own := strings.IndexAny(good, ",;") + 1
			for at := range good {
				if good == long && at >= own && at < own+6 { // `start`: no take for permits looks at it
					continue
				}
				others := "\x00\x02\x06\xff"
				if at < own {
					others += "x -90.,;:"
				} else if read := own + columns.Packed.Bytes() + columns.Log.Bytes(); at > read && at%8 > 0 {
					continue // of an entry
				}
				column := at - own - columns.Packed.Bytes()
				entries := good == long && column >= 0 && (column < 2 || column >= 30) // `count`, `dead`, `oldest`
				for _, other := range []byte(others) {
					bad := good[:at] + string([]byte{other}) + good[at+1:]
					for _, name := range []string{"before", "behind"} {
						command(t, client, "SET", ref(name).head, good)
					}
					command(t, client, "SET", ref("calm").head, bad)
					command(t, client, "SET", ref("full").head, bad)
					rare := ones(p, 2)
					rare.Rare = true
					full, fullErr := endpoint.Take(t.Context(), ref("full"), rare)
					all := []*Section{{Ref: ref("before"), Request: ones(p, 1)}, {Ref: ref("calm"), Request: ones(p, 2)},
						{Ref: ref("behind"), Request: ones(p, 1)}}
					endpoint.TakeAll(t.Context(), all)
					// Only the full take reads all entries. So it alone sees that there are more
					// than `count` says, or less than `dead` does.
					unseen := entries && (column == 0 && other < 7 || column == 1 && other == 255)
					got := *all[1]
					got.Reply.Waits = full.Waits // which it foresees by another column
					if got.Err == nil && at < own+columns.Log.Bytes() && (got.Reply.Granted > full.Granted && !unseen ||
						!entries && !reflect.DeepEqual(got.Reply, full)) {
						t.Fatalf("%v, %q at %d: calm %+v, full %+v, %v", a, bad, at, got.Reply, full, fullErr)
					}
					for _, s := range []*Section{all[0], all[2]} {
						if s.Err != nil || s.Reply.Granted != 1 || !reflect.DeepEqual(s.Reply, all[0].Reply) {
							t.Fatalf("%v, %q at %d: a sound one: %+v, %v", a, other, at, s.Reply, s.Err)
						}
					}
				}
			}
		}
	}
}

// However many entries are alive, and whichever leaves, a log that is as proposed is calm.
func TestALongLogStaysCalm(t *testing.T) {
	m := miniredis.RunT(t)
	endpoint := NewEndpoint(miniClient(t, m))
	for _, share := range []int64{20, 100, 1000} {
		p := terms(t, Terms{Epoch: 1, Target: share, Floor: share, Window: 200 * time.Millisecond, Keep: keep})
		for now := int64(epoch0); now < epoch0+second; now += 1300 {
			m.SetTime(time.UnixMicro(now))
			all := []*Section{{Ref: ShardKeys("", "t", strconv.FormatInt(share, 10)), Request: ones(p, 1)}}
			if endpoint.TakeAll(t.Context(), all); all[0].Err != nil || all[0].full {
				t.Fatalf("of %d: %+v", share, all[0])
			}
		}
	}
}

// What is not a reply of take.lua is no answer.
func TestMalformedCalmReplies(t *testing.T) {
	p := proposal(t, 1, 5, time.Hour)
	now := string(columns.Once.Append(nil, 0, 7))
	told := func(n ...int64) string { return string(columns.Told.Append([]byte(now), 0, n...)) }
	good := told(5, 9, 9, 0)
	for text, sound := range map[string]bool{
		good: true, told(0, 9, 9, 0): true, told(0, 9, 9, 1): true, now + calmCreated: true, now + calmLook: true,
		"": false, now: false, now[1:]: false, good[:len(good)-1]: false, good + "\x00": false,
		good + calmLook: false, good + good[len(now):]: false, "\xff" + good[1:]: false, now + "\x03": false,
		now + "-": false, now + "\x00": false,
		told(6, 9, 9, 0): false, told(-2, 9, 9, 0): false, told(5, -9, 9, 0): false,
		told(5, 9, 0, 0): false, told(5, 0, 9, 0): false,
		told(5, 9, 8, 0): false, told(5, 9, 9, 2): false, "7,5 9 9": false,
	} {
		s := Section{Request: ones(p, 1)}
		err := readCalm([]*Section{&s}, message(t, [][]byte{element('$', []byte(text))}))
		if err == nil {
			err = s.Err
		}
		if sound != (err == nil) || err != nil && !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%q: %v, %+v", text, err, s.Reply)
		}
	}
	whole := element('$', []byte(good))
	for _, reply := range [][][]byte{{}, {integer(7)}, {whole, whole}} {
		if err := readCalm([]*Section{{Request: ones(p, 1)}}, message(t, reply)); !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%q: %v", reply, err)
		}
	}
	s := Section{Request: asking(p, 1, 2)}
	err := readCalm([]*Section{&s}, message(t, [][]byte{element('$', []byte(told(1, 9, 9, 0)))}))
	if err != nil || !errors.Is(s.Err, ErrMalformedReply) {
		t.Errorf("less than all for who has a name: %v, %+v", s.Err, s.Reply)
	}
}
