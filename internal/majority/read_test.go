package majority

import (
	"errors"
	"testing"
	"time"
)

// servers are the places of one register, and their clocks.
type servers struct {
	places  []Place
	servers []Server
}

func newServers(n int) *servers {
	s := &servers{places: make([]Place, n), servers: make([]Server, n)}
	for i := range s.servers {
		s.servers[i] = Server{Run: "run" + string(rune('a'+i)), Now: 1_000_000}
	}
	return s
}

func (s *servers) tell(i int, m Message) Answer {
	var a Answer
	s.places[i], a = s.places[i].Hear(m, s.servers[i])
	return a
}

func (s *servers) read() []*Answer {
	answers := make([]*Answer, len(s.places))
	for i := range s.places {
		a := s.tell(i, Message{Kind: Read})
		answers[i] = &a
	}
	return answers
}

// write has a proposer make rounds until a value is chosen and blank places are restored.
func (s *servers) write(t *testing.T, p *Proposer, change Change) (rounds int) {
	t.Helper()
	for rounds < 3 {
		rounds++
		r := p.Begin()
		for i := range s.places {
			r.Promise(i, s.tell(i, r.Ask()))
		}
		accepts, err := r.Choose(change)
		if err == nil {
			for _, m := range accepts {
				r.Accepted(m.Place, s.tell(m.Place, m.Message))
			}
			for _, m := range r.Restores() {
				r.Accepted(m.Place, s.tell(m.Place, m.Message))
			}
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

func proposer(t *testing.T, id int64) *Proposer {
	t.Helper()
	p, err := NewProposer(id, 3)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A new register takes two rounds, a change one, and so does one after a place forgot.
func TestRoundsThatAWriteTakes(t *testing.T) {
	s, p := newServers(3), proposer(t, 1)
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
	if n := s.write(t, proposer(t, 9), to("e")); n > 2 {
		t.Errorf("a newcomer took %d rounds", n)
	}
}

// A value is as old as a majority tells, whatever the clock of one place does. Confirming it makes
// it no younger.
func TestHowLongAValueIsHeld(t *testing.T) {
	s, p := newServers(3), proposer(t, 1)
	s.write(t, p, to("a"))
	age := func(want time.Duration) {
		t.Helper()
		got, v := Confirm(s.read())
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

func TestVerdictsOnReads(t *testing.T) {
	one, two := Ballot{1, 1}, Ballot{2, 1}
	vote := &Answer{Votes: true, Promised: one, Accepted: one, Value: "v"}
	newer := &Answer{Votes: true, Promised: two, Accepted: two, Value: "w"}
	open := &Answer{Votes: true, Promised: two, Accepted: one, Value: "v"}
	blank := &Answer{Accepted: two, Value: "old"}
	for name, c := range map[string]struct {
		answers []*Answer
		want    Verdict
	}{
		"all alike":           {[]*Answer{vote, vote, vote}, Confirmed},
		"a majority alike":    {[]*Answer{vote, nil, vote}, Confirmed},
		"a blank place":       {[]*Answer{vote, blank, vote}, Confirmed},
		"one answer":          {[]*Answer{vote, nil, nil}, Unknown},
		"a promise is open":   {[]*Answer{vote, open, vote}, Unsettled},
		"a newer one, alone":  {[]*Answer{vote, newer, vote}, Unsettled},
		"most are blank":      {[]*Answer{vote, blank, blank}, Unsettled},
		"nobody votes":        {[]*Answer{blank, blank, blank}, Unsettled},
		"one votes, one open": {[]*Answer{vote, open, nil}, Unsettled},
	} {
		if _, got := Confirm(c.answers); got != c.want {
			t.Errorf("%s: verdict %d, not %d", name, got, c.want)
		}
	}
}
