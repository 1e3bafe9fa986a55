package majority

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// servers are the places of one register, and their clocks.
type servers struct {
	places  []Place
	servers []Server
	silent  map[int]bool // these places do not answer
}

func newServers(n int) *servers {
	s := &servers{places: make([]Place, n), servers: make([]Server, n), silent: map[int]bool{}}
	for i := range s.servers {
		s.servers[i] = Server{Run: "run" + string(rune('a'+i)), Now: 1_000_000}
	}
	return s
}

// tell sends messages, and has the answers heard.
func (s *servers) tell(messages []Message, heard func(place int, a Answer)) {
	for _, m := range messages {
		if i := m.Place; !s.silent[i] {
			var a Answer
			s.places[i], a = s.places[i].Hear(m, s.servers[i])
			heard(i, a)
		}
	}
}

func (s *servers) read() (Reading, Verdict) {
	answers, reads := make([]*Answer, len(s.places)), []Message(nil)
	for i := range answers {
		reads = append(reads, Message{Place: i, Kind: Read})
	}
	s.tell(reads, func(place int, a Answer) { answers[place] = &a })
	return Confirm(answers)
}

// write has a proposer make rounds until a value is chosen and blank places are restored.
func (s *servers) write(t *testing.T, p *Proposer, change Change) (rounds int) {
	t.Helper()
	for rounds < 3 {
		rounds++
		r := p.Begin()
		s.tell(r.Prepares(), r.Promise)
		accepts, err := r.Choose(change)
		if err == nil {
			s.tell(accepts, r.Accepted)
			s.tell(r.Restores(), r.Accepted)
			err = r.Err()
		}
		p.End(r)
		if err == nil {
			return rounds
		}
		if !errors.Is(err, ErrBlank) && !errors.Is(err, ErrOvertaken) {
			t.Fatal(err)
		}
	}
	t.Fatal("nothing was chosen")
	return 0
}

func to(value string) Change { return func(Found) (string, error) { return value, nil } }

// A new register takes two rounds, a change one, and so does one after a place forgot.
func TestRoundsThatAWriteTakes(t *testing.T) {
	s, p := newServers(3), NewProposer(1, 3)
	if n := s.write(t, p, to("a")); n != 2 {
		t.Errorf("a new register took %d rounds", n)
	}
	if n := s.write(t, p, to("b")); n != 1 {
		t.Errorf("a change took %d rounds", n)
	}
	s.places[2] = Place{}
	if n := s.write(t, p, to("c")); n != 1 || !s.places[2].Votes || s.places[2].Value != "c" {
		t.Errorf("with an empty place it took %d rounds; the place is %+v", n, s.places[2])
	}
	for i := range s.servers {
		s.servers[i].Run += "again"
	}
	if n := s.write(t, p, func(f Found) (string, error) { return f.Value + "d", nil }); n != 2 ||
		s.places[0].Value != "cd" {
		t.Errorf("after a restart of all it took %d rounds; the value is %q", n, s.places[0].Value)
	}
	if n := s.write(t, NewProposer(9, 3), to("e")); n > 2 {
		t.Errorf("a newcomer took %d rounds", n)
	}
}

// A value is as old as a majority tells, whatever the clock of one place does. Confirming it makes
// it no younger.
func TestHowLongAValueIsHeld(t *testing.T) {
	s, p := newServers(3), NewProposer(1, 3)
	s.write(t, p, to("a"))
	age := func(want time.Duration) {
		t.Helper()
		got, v := s.read()
		if v != Confirmed || got.Value != "a" || got.Held != want {
			t.Errorf("verdict %d: %q held for %v, not %v", v, got.Value, got.Held, want)
		}
	}
	for i, later := range []int64{5e6, 3e6, 4e6} {
		s.servers[i].Now += later
	}
	age(4 * time.Second)
	s.write(t, p, func(f Found) (string, error) {
		if f.Held != 4*time.Second {
			t.Errorf("a round finds it held for %v", f.Held)
		}
		return f.Value, nil
	})
	age(4 * time.Second)
	s.servers[1].Now += 600e6
	age(5 * time.Second) // one clock stepped ahead
	s.servers[1].Now -= 1200e6
	age(4 * time.Second) // or was set back
	s.servers[1].Now += 600e6
	s.places[2] = Place{}
	s.write(t, p, to("a"))
	age(3 * time.Second) // one was restored just now
	s.servers[1].Now -= 600e6
	age(0) // nor do two tell of any time
}

// For how long a register has had a value, the first place knows longest. The others learn it, also
// one that was restored.
func TestHowLongARegisterHasHadAValue(t *testing.T) {
	s, p := newServers(3), NewProposer(1, 3)
	s.servers[1].Now, s.servers[2].Now = 100e6, 200e6
	s.write(t, p, to("a"))
	s.servers[0].Now += 9e6
	s.write(t, p, func(f Found) (string, error) {
		if f.Known != 9*time.Second {
			t.Errorf("a round finds it known for %v", f.Known)
		}
		return "b", nil
	})
	s.places[2] = Place{}
	s.write(t, p, to("c"))
	for i := range s.places {
		s.silent = map[int]bool{(i + 1) % 3: true, (i + 2) % 3: true}
		if got, v := s.read(); v != Unknown || got.Known != 9*time.Second {
			t.Errorf("place %d: verdict %d, known for %v", i, v, got.Known)
		}
	}
}

func TestVerdictsOnReads(t *testing.T) {
	one, two := Ballot{1, 1}, Ballot{2, 1}
	vote := &Answer{OK: true, Votes: true, Promised: one, Accepted: one, Value: "v"}
	newer := &Answer{OK: true, Votes: true, Promised: two, Accepted: two, Value: "w"}
	open := &Answer{OK: true, Votes: true, Promised: two, Accepted: one, Value: "v"}
	blank := &Answer{OK: true, Accepted: two, Value: "old"}
	none, asked := &Answer{OK: true, Votes: true}, &Answer{OK: true, Votes: true, Promised: one}
	for name, c := range map[string]struct {
		answers []*Answer
		want    Verdict
		value   string // that is confirmed; "": there is none
	}{
		"all alike":           {[]*Answer{vote, vote, vote}, Confirmed, "v"},
		"a majority alike":    {[]*Answer{vote, nil, vote}, Confirmed, "v"},
		"a blank place":       {[]*Answer{vote, blank, vote}, Confirmed, "v"},
		"one answer":          {[]*Answer{vote, nil, nil}, Unknown, ""},
		"a promise is open":   {[]*Answer{vote, open, vote}, Unsettled, ""},
		"one came too late":   {[]*Answer{open, newer, newer}, Confirmed, "w"},
		"a newer one, alone":  {[]*Answer{vote, newer, vote}, Unsettled, ""},
		"most are blank":      {[]*Answer{vote, blank, blank}, Unsettled, ""},
		"nobody votes":        {[]*Answer{blank, blank, blank}, Unsettled, ""},
		"one votes, one open": {[]*Answer{vote, open, nil}, Unsettled, ""},
		"nothing there":       {[]*Answer{none, nil, none}, Confirmed, ""},
		"nothing, one blank":  {[]*Answer{none, blank, none}, Confirmed, ""},
		"nothing, one value":  {[]*Answer{none, vote, none}, Unsettled, ""},
		"nothing yet":         {[]*Answer{none, asked, none}, Unsettled, ""},
		"nothing, and blanks": {[]*Answer{none, blank, blank}, Unsettled, ""},
	} {
		got, v := Confirm(c.answers)
		if v != c.want || v == Confirmed && (got.Value != c.value || got.Exists != (c.value != "")) {
			t.Errorf("%s: verdict %d of %+v, not %d", name, v, got, c.want)
		}
	}
}

func FuzzDecodeMembership(f *testing.F) {
	f.Add(`{"generation":3,"nodes":[{"name":"a","missed":true,"since":1},{"name":"b","out":true,"since":2,"for_ns":9}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		m, err := DecodeMembership(s)
		if err != nil {
			return
		}
		text, err := m.Encode()
		if err != nil {
			t.Fatalf("%+v cannot be stored: %v", m, err)
		}
		if again, err := DecodeMembership(text); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%q became %+v (%v)", text, again, err)
		}
	})
}

func TestWhatCannotBeHeldIsRefused(t *testing.T) {
	for _, s := range []string{"", "M2", `{"generation":1,"nodes":[{"name":"a","since":1}]} {}`,
		`{"generation":1,"nodes":[]}`, `{"generation":1,"nodes":[{"name":"a","out":true,"since":1}]}`,
		`{"generation":1,"nodes":[{"name":"a","out":true,"since":2}]}`,
		`{"generation":1,"nodes":[{"name":"a","since":1,"for_ns":1}]}`} {
		if m, err := DecodeMembership(s); err == nil {
			t.Errorf("%q became %+v", s, m)
		}
	}
	if _, err := DecodeMembership(`{"generation":1,"nodes":[{"name":"a","since":1}]}`); err != nil {
		t.Error(err)
	}
}
