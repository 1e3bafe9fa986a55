package majority

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// This file is a world of places and rounds for the checkers. Messages are never used up: each may
// come at any time, any number of times, or never. An answer is heard at once; what an answer that
// is late or lost can do, a round does that chooses later, or sends nothing more.

// rules are the size of a world, and what is broken in it.
type rules struct {
	places                   int // 0: three
	proposers                int // 0: two
	rounds                   int // of all proposers, who take turns in the list; 0: one of each
	forgets, restarts, saves int // how often
	deaf                     int // how many promises a round does not hear of
	reads                    int
	// The servers have pointers of their first run, and the register is nowhere. A pointer can be
	// renewed so often.
	absent   bool
	bare     bool // but the servers have no pointers yet
	unused   bool // any number of places may forget a register that is not in use
	renews   int
	confirms bool // every second round confirms what it finds
	moves    bool // places may move, and reads ask for what is final there

	quorum        int  // 0: a majority
	amnesia       bool // a place votes although it forgot
	looseRestore  bool // a restore is not bound to the life of the place
	looseAccept   bool // neither is an accept
	trustingRead  bool // one answer confirms a read
	brokenPromise bool // a place accepts below its promise
	earlyRestore  bool // a blank place is restored before the value is chosen
	lateVoter     bool // a promise that came after the choice counts
	hastyRevival  bool // blank places need not be known before the round
	fewRevive     bool // nor need all places answer
	emptyMinority bool // more places may forget than a minority
	noPointer     bool // an absent place votes with no pointer
	barePromise   bool // a place that has only promised votes with no pointer
	oldPointer    bool // a pointer of any run will do
	renewAll      bool // a pointer is renewed although the register was not restored
	renewUnchosen bool // the register is not restored if it has no value that is chosen
	sameMark      bool // an absent place that votes has the mark of its run
	hastyMove     bool // what is final is asked before most places have moved
	fewFinal      bool // what one place tells is final
}

// node is a place with its server.
type node struct {
	place, saved Place
	run, life    int  // how often the server started, how often the place lost something
	lost         bool // it forgot, and has not voted since
	pointer      int  // the run that its pointer is of; 0: it has none
	savedPointer int
	moved        bool
}

// play is a round and what became of it.
type play struct {
	begun    bool
	round    Round
	accepts  []Message
	deaf     int
	acceptBy uint8 // places that ever accepted
	won      bool
}

// look is a read.
type look struct {
	begun   bool
	floor   string // the value that was chosen when it began
	answers []*Answer
}

type world struct {
	*rules
	nodes                     []node
	plays                     []play
	looks                     []look
	chosen                    string
	final                     string // what a read found to be final; "" if none did
	forgot, restarted, stored int
	renewed                   int
}

const base = "0"

func newWorld(r *rules) world {
	r.places, r.proposers = cmp.Or(r.places, 3), cmp.Or(r.proposers, 2)
	r.rounds = cmp.Or(r.rounds, r.proposers)
	w := world{rules: r, nodes: make([]node, r.places), plays: make([]play, r.rounds), looks: make([]look, r.reads)}
	for i := range w.nodes {
		n := &w.nodes[i]
		n.run = 1
		if r.absent && r.bare {
			continue
		} else if r.absent {
			n.pointer, n.savedPointer = 1, 1
		} else {
			first := Ballot{Round: 1, Proposer: 1}
			n.place = Place{Run: w.server(i).Run, Mark: w.server(i).Run + "/", Votes: true, Promised: first,
				Accepted: first, Value: base}
			n.saved = n.place
			w.chosen = base
		}
	}
	for k := range w.plays {
		b := Ballot{Round: int64(k) + 2, Proposer: int64(k%r.proposers) + 1}
		w.plays[k] = play{begun: k < r.proposers, round: *newRound(b, r.places, nil)}
		w.plays[k].round.quorum = cmp.Or(r.quorum, Majority(r.places))
	}
	return w
}

func (w *world) server(i int) Server {
	n := &w.nodes[i]
	return Server{Run: "ABCDEFGHI"[i:i+1] + strconv.Itoa(n.run), Now: int64(n.life),
		Whole: n.pointer == n.run || w.noPointer || w.oldPointer && n.pointer != 0 ||
			w.barePromise && n.place != (Place{}), Moved: n.moved}
}

type step struct {
	what byte
	k, i int
}

func (s step) String() string { return fmt.Sprintf("%c%d.%d", s.what, s.k, s.i) }

// The kinds of step: of a round (begin, prepare, prepare unheard, choose, accept, restore), of a
// place (forget all in the same run, come back from what was saved, restart, save), of a read, of a
// pointer.
const (
	begin, prepare, unheard, choose, accept, restore = 'b', 'p', 'u', 'c', 'a', 'r'
	empty, snapshot, restart, save                   = 'E', 'S', 'R', 'V'
	look0, look1                                     = 'l', 'L'
	renew                                            = 'N'
	move                                             = 'M'
)

// steps are all that can happen next.
func (w *world) steps() (out []step) {
	add := func(what byte, k, i int) { out = append(out, step{what, k, i}) }
	for k := range w.plays {
		w.stepsOf(k, add)
	}
	for i := range w.nodes {
		if w.forgot < w.forgets && w.mayForget(i) {
			add(empty, 0, i)
			add(snapshot, 0, i)
		}
		if w.restarted < w.restarts {
			add(restart, 0, i)
		}
		if n := &w.nodes[i]; w.stored < w.saves && (n.saved != n.place || n.savedPointer != n.pointer) {
			add(save, 0, i)
		}
		if w.renewed < w.renews && w.mayRenew(i) {
			add(renew, 0, i)
		}
		if w.moves && !w.nodes[i].moved {
			add(move, 0, i)
		}
	}
	for k := range w.looks {
		if !w.looks[k].begun {
			if !w.moves || w.hastyMove || w.moved() >= Majority(w.places) {
				add(look0, k, 0)
			}
			continue
		}
		for i, a := range w.looks[k].answers {
			if a == nil && (!w.moves || w.hastyMove || w.nodes[i].moved) {
				add(look1, k, i)
			}
		}
	}
	return out
}

func (w *world) stepsOf(k int, add func(what byte, k, i int)) {
	p := &w.plays[k]
	if !p.begun {
		if w.plays[k-w.proposers].begun {
			add(begin, k, 0)
		}
		return
	}
	for i := range w.nodes {
		promises := w.nodes[i].place.Promised.Below(p.round.ballot)
		if promises || !p.round.closed && p.round.promises[i] == nil { // else nothing comes of it
			add(prepare, k, i)
		}
		if promises && p.deaf < w.deaf {
			add(unheard, k, i)
		}
	}
	ended := k+w.proposers < len(w.plays) && w.plays[k+w.proposers].begun
	oks := p.round.count(func(a *Answer) bool { return a.OK })
	if !p.round.closed && !ended && (oks >= p.round.quorum) {
		add(choose, k, 0)
	}
	for j, to := range p.accepts {
		server := w.server(to.Place)
		place, m := w.broken(w.nodes[to.Place].place, to, server)
		if _, a := place.Hear(m, server); a.OK { // else nothing comes of it
			add(accept, k, j)
		}
	}
	for j := range w.restores(p) {
		add(restore, k, j)
	}
}

func (w *world) restores(p *play) []Message {
	if w.earlyRestore && p.round.value != "" {
		return p.round.messages(func(a *Answer) bool { return !a.Votes })
	}
	return p.round.Restores()
}

// mayForget: at most a minority has forgotten at a time.
func (w *world) mayForget(i int) bool {
	if w.emptyMinority || w.unused && !w.used() {
		return true
	}
	lost := 0
	for j := range w.nodes {
		if w.nodes[j].lost || i == j {
			lost++
		}
	}
	return lost <= w.places-Majority(w.places)
}

// moved is how many places have moved.
func (w *world) moved() (n int) {
	for i := range w.nodes {
		if w.nodes[i].moved {
			n++
		}
	}
	return n
}

// used reports whether the register is in use: since a place accepted its first value, which need
// not be chosen yet.
func (w *world) used() bool {
	return !w.absent || slices.ContainsFunc(w.plays, func(p play) bool { return p.acceptBy != 0 })
}

// mayRenew: the pointer is of another run, or gone, and the place votes again, if the register is
// in use.
func (w *world) mayRenew(i int) bool {
	n, used := &w.nodes[i], w.used()
	if w.renewUnchosen {
		used = w.chosen != ""
	}
	if w.moved() > 0 && !n.moved { // the record by which places move is in use
		return false
	}
	return n.pointer != n.run && (!used || w.renewAll || n.place.Votes && n.place.Run == w.server(i).Run)
}

// after is the world after a step, and what is wrong with it.
func (w world) after(s step) (world, error) {
	switch s.what {
	case empty, snapshot, restart, save, renew, move, look0, look1:
		return w.afterOther(s)
	}
	w.plays = slices.Clone(w.plays)
	p := &w.plays[s.k]
	switch s.what {
	case begin:
		p.begun = true
		p.know(w.plays[s.k-w.proposers].round.promises)
	case prepare, unheard:
		a := w.send(s.i, p.round.Prepares()[s.i])
		if s.what == unheard {
			p.deaf++
			break
		}
		p.round.promises = slices.Clone(p.round.promises)
		if w.lateVoter && p.round.closed && a.OK && p.round.promises[s.i] == nil && p.accepts != nil && a.Votes {
			p.round.promises[s.i] = &a
			p.accepts = p.round.messages(func(a *Answer) bool { return a.Votes })
		}
		p.round.Promise(s.i, a)
	case choose:
		w.choose(s.k, p)
	case accept, restore:
		to := p.accepts
		if s.what == restore {
			to = w.restores(p)
		}
		a := w.send(to[s.i].Place, to[s.i])
		if s.what == accept {
			p.round.Accepted(to[s.i].Place, a)
			if a.OK {
				p.acceptBy |= 1 << to[s.i].Place
			}
		}
		return w, w.judge(p)
	}
	return w, nil
}

// know notes the blank places among those that gave these promises.
func (p *play) know(promises []*Answer) {
	for _, a := range promises {
		if a != nil && a.OK && !a.Votes {
			p.round.known = append(slices.Clip(p.round.known), a.Mark)
		}
	}
}

func (w *world) choose(k int, p *play) {
	if w.hastyRevival {
		p.know(p.round.promises)
	}
	if w.fewRevive && !p.round.Heard() {
		p.round.promises = slices.Clone(p.round.promises)
		for i, a := range p.round.promises {
			if a == nil {
				p.round.promises[i] = &Answer{OK: true, Mark: "?"}
				p.round.known = append(slices.Clip(p.round.known), "?")
			}
		}
	}
	p.accepts, _ = p.round.Choose(func(f Found) (string, error) {
		if w.confirms && k%2 == 1 && f.Exists {
			return f.Value, nil
		}
		return f.Value + string(rune('a'+k)), nil
	})
}

// judge checks a value that is chosen now: one of it and the last one was derived from the other.
// It may be the older one: a round that comes late to its majority, after its value was found at a
// place and followed.
func (w *world) judge(p *play) error {
	if p.won || bits.OnesCount8(p.acceptBy) < p.round.quorum {
		return nil
	}
	p.won = true
	switch {
	case w.final != "" && !strings.HasPrefix(w.final, p.round.value):
		return fmt.Errorf("%q was chosen where %q was final", p.round.value, w.final)
	case strings.HasPrefix(p.round.value, w.chosen):
		w.chosen = p.round.value
	case !strings.HasPrefix(w.chosen, p.round.value):
		return fmt.Errorf("%q was chosen after %q", p.round.value, w.chosen)
	}
	return nil
}

func (w world) afterOther(s step) (world, error) {
	if s.what == look0 || s.what == look1 {
		w.looks = slices.Clone(w.looks)
		return w, w.look(&w.looks[s.k], s)
	}
	w.nodes = slices.Clone(w.nodes)
	n := &w.nodes[s.i]
	switch s.what {
	case empty: // flushed, in the same run
		n.place, n.pointer, n.lost, n.moved = Place{}, 0, true, false
		w.forgot++
	case snapshot:
		n.place, n.pointer, n.lost, n.moved = n.saved, n.savedPointer, true, false
		n.run++
		w.forgot++
	case restart:
		n.run++
		w.restarted++
	case save:
		n.saved, n.savedPointer = n.place, n.pointer
		w.stored++
		return w, nil
	case move:
		n.moved = true
		return w, nil
	case renew:
		n.pointer, n.lost = n.run, false
		w.renewed++
		return w, nil
	}
	n.life++
	return w, nil
}

func (w *world) look(l *look, s step) error {
	if s.what == look0 {
		*l = look{begun: true, floor: w.chosen, answers: make([]*Answer, w.places)}
		return nil
	}
	a := w.send(s.i, Message{Kind: Read})
	l.answers = slices.Clone(l.answers)
	l.answers[s.i] = &a
	if w.moves {
		return w.end(l)
	}
	quorum := Majority(w.places)
	if w.trustingRead {
		quorum = 1
	}
	got, v := confirm(l.answers, quorum)
	if v == Confirmed && !strings.HasPrefix(got.Value, l.floor) {
		return fmt.Errorf("a read that began when %q was chosen says %q", l.floor, got.Value)
	}
	return nil
}

// end checks what a read of places that have moved finds to be final: all that was chosen, or will
// be, went before.
func (w *world) end(l *look) error {
	got, err := Final(l.answers)
	if w.fewFinal {
		r := Round{quorum: 1, promises: l.answers}
		got, _ = r.found()
		err = nil
	}
	if err != nil {
		return nil
	}
	if !strings.HasPrefix(got.Value, w.chosen) {
		return fmt.Errorf("%q is final after %q was chosen", got.Value, w.chosen)
	}
	w.final = got.Value
	return nil
}

// send gives a message to a place.
func (w *world) send(i int, m Message) Answer {
	w.nodes = slices.Clone(w.nodes)
	n, s := &w.nodes[i], w.server(i)
	p, m := w.broken(n.place, m, s)
	absent := p == (Place{})
	p, a := p.Hear(m, s)
	if w.sameMark && absent && p.Votes {
		p.Mark, a.Mark = s.Run, s.Run
	}
	if a.OK && m.Kind != Read {
		n.place = p
		n.lost = n.lost && !p.Votes
	}
	return a
}

// broken is a place and a message as a broken place sees them.
func (w *world) broken(p Place, m Message, s Server) (Place, Message) {
	if w.amnesia && (p.Run != s.Run || p.Mark == "") {
		p.Run, p.Votes, p.Mark = s.Run, true, cmp.Or(p.Mark, m.Mark, "?")
	}
	blank := !p.Votes || p.Run != s.Run
	if w.looseAccept && m.Kind == Accept && !blank || w.looseRestore && m.Kind == Restore && blank {
		p.Run, p.Mark, p.Promised = s.Run, m.Mark, m.Ballot
		if blank {
			p.Votes = false
		}
	}
	if w.brokenPromise && m.Kind == Accept && m.Ballot.Below(p.Promised) {
		p.Promised = m.Ballot
	}
	return p, m
}
