package script

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// stage is a random walk over everything a shard can be asked, at chosen times: the source of all
// generated sequences.
type stage struct {
	t         *rapid.T
	algorithm Algorithm
	node      int64 // the node's clock, us
	epoch     int64 // highest epoch proposed
	target    int64
	window    time.Duration
	bursts    map[int64]int64 // by epoch; below 0: the shard leaves to another algorithm
	grants    []TakeReply     // those that granted something
	next      time.Duration
	names     int // how many participants there are
}

// step is one operation of a sequence; one without any is a look.
type step struct {
	now    int64
	take   *TakeRequest
	book   *ReserveRequest
	settle *SettleRequest
	clear  bool
	lose   bool // the ledger is evicted
}

var (
	windows = []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, MaxWindow}
	scales  = []int64{1, 2, 5, 100, 128, 129, 200, 10_000, 1_000_000, MaxPermits}
)

const keep = 1000 * time.Hour // long enough for nothing to expire on a server whose clock the test does not hold

func newStage(t *rapid.T, a Algorithm) *stage {
	s := &stage{
		t: t, algorithm: a, node: epoch0 + rapid.Int64Range(0, 1e12).Draw(t, "node"), bursts: map[int64]int64{},
		names: rapid.SampledFrom([]int{1, 2, 5, 14, 60}).Draw(t, "names"),
	}
	s.reshape()
	return s
}

// reshape chooses the next epoch.
func (s *stage) reshape() {
	s.epoch += rapid.Int64Range(1, 3).Draw(s.t, "epoch step")
	s.target = rapid.SampledFrom(scales).Draw(s.t, "target")
	if rapid.Bool().Draw(s.t, "odd") {
		s.target = rapid.Int64Range(0, s.target).Draw(s.t, "odd target")
	}
	if s.window == 0 || rapid.IntRange(0, 3).Draw(s.t, "new window") == 0 {
		s.window = rapid.SampledFrom(windows).Draw(s.t, "window")
	}
}

func (s *stage) proposal() *Proposal {
	epoch, target, floor, window := s.epoch, s.target, s.target, s.window
	switch rapid.IntRange(0, 10).Draw(s.t, "proposal") {
	case 0:
		epoch = 0
	case 1:
		epoch = max(epoch-1, 0)
	case 2:
		floor = 0
	case 3:
		floor = rapid.Int64Range(0, s.target).Draw(s.t, "floor")
	case 4, 5: // a limit that comes with the call
		target = rapid.SampledFrom(scales).Draw(s.t, "another target")
		floor = target
		if rapid.Bool().Draw(s.t, "another window") {
			window = rapid.SampledFrom(windows).Draw(s.t, "window of the call")
		}
	}
	offer := Terms{Epoch: epoch, Revision: rapid.Int64Range(0, 2).Draw(s.t, "revision"), Target: target, Floor: floor,
		Window: window, Keep: keep, Algorithm: s.algorithm,
		Quarantine: rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond}).Draw(s.t, "quarantine")}
	if offer.HeldKnown = rapid.IntRange(0, 2).Draw(s.t, "held is known") == 0; offer.HeldKnown {
		offer.Held = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, s.target)).Draw(s.t, "held")
	}
	burst, drawn := s.bursts[epoch]
	if !drawn {
		burst = rapid.SampledFrom([]int64{0, 0, 1, 3, target/2 + 1, 2 * target, 7*target + 3, -1, -1}).Draw(s.t,
			"burst")
		s.bursts[epoch] = burst
	}
	if burst < 0 {
		offer.Target, offer.Floor, offer.Retire = 0, 0, true
	}
	offer.Burst = min(max(burst, 0), MaxPermits)
	p, err := offer.Proposal()
	if err != nil { // it takes too long to fill
		offer.Burst = 0
		return terms(s.t, offer)
	}
	return p
}

func (s *stage) groups(most, callers int) (groups []Group) {
	for range rapid.IntRange(0, most).Draw(s.t, "groups") {
		size := rapid.OneOf(
			rapid.Just(int64(1)), rapid.Int64Range(1, 5), rapid.Int64Range(1, max(s.target/10, 1)),
			rapid.Int64Range(1, max(s.target, 1)), rapid.Just(min(s.target+1, MaxPermits)),
			rapid.Just(int64(MaxPermits)),
		).Draw(s.t, "size")
		count := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 200), rapid.Just(int64(MaxPermits))).Draw(s.t,
			"count")
		groups = append(groups,
			Group{Size: size, Count: count, Caller: rapid.IntRange(0, max(callers-1, 0)).Draw(s.t, "caller")})
	}
	return groups
}

// advance moves the node's clock: by nothing, by little, to the very instant of a release, far, or
// back.
func (s *stage) advance() {
	us := int64(s.window / time.Microsecond)
	switch rapid.IntRange(0, 11).Draw(s.t, "clock") {
	case 0, 1:
	case 2:
		s.node++
	case 3, 4:
		s.node += rapid.Int64Range(0, us/logCells).Draw(s.t, "little")
	case 5:
		s.node += us/logCells + rapid.Int64Range(-1, 1).Draw(s.t, "cell")
	case 6:
		s.node += rapid.Int64Range(0, us).Draw(s.t, "some")
	case 7, 8:
		s.node += int64(s.next/time.Microsecond) - rapid.Int64Range(0, 1).Draw(s.t, "early")
	case 9:
		s.node += us + rapid.Int64Range(-1, 1).Draw(s.t, "window")
	case 10:
		s.node += rapid.Int64Range(0, 40).Draw(s.t, "idle") * us
	case 11:
		s.node -= rapid.Int64Range(0, 2*us).Draw(s.t, "back")
	}
}

// steps draws the next operations: mostly one, sometimes many that fill the log.
func (s *stage) steps() []step {
	if rapid.IntRange(0, 11).Draw(s.t, "reshape") == 0 {
		s.reshape()
	}
	s.advance()
	switch rapid.IntRange(0, 14).Draw(s.t, "operation") {
	case 0:
		return []step{{now: s.node}}
	case 1:
		kind := rapid.IntRange(0, 7).Draw(s.t, "lose the ledger, or clear")
		return []step{{now: s.node, lose: kind < 2, clear: kind == 2}}
	case 2, 3, 4:
		if settle := s.aim(); settle != nil {
			return []step{{now: s.node, settle: settle}}
		}
	case 5, 9:
		return s.crowd()
	case 6, 7, 8:
		return s.bookings()
	}
	return s.takes(nil, s.request())
}

// request draws what a take asks for.
func (s *stage) request() *TakeRequest {
	callers := s.callers(rapid.IntRange(0, 3).Draw(s.t, "callers"))
	r := &TakeRequest{Proposal: s.proposal(), Groups: s.groups(4, len(callers)), Callers: callers, Relied: s.relied()}
	r.Known = rapid.SampledFrom([]time.Duration{0, time.Second, 3 * time.Second, time.Minute, MaxWindow,
		3 * MaxWindow}).Draw(s.t, "known")
	return r
}

// takes appends a take now, which may ask the paced take or the full one at once.
func (s *stage) takes(all []step, r *TakeRequest) []step {
	r.Rare = rapid.IntRange(0, 2).Draw(s.t, "rare") == 0
	r.Contended = r.Rare && rapid.Bool().Draw(s.t, "paced")
	return append(all, step{now: s.node, take: r})
}

// relied is what a call relies on, but for how long the limit is known. Mostly it has no deadline:
// else none ever, one just over, just not, or far. Nor has it a fence.
func (s *stage) relied() Relied {
	r := Relied{Seen: rapid.Bool().Draw(s.t, "seen")}
	if rapid.IntRange(0, 3).Draw(s.t, "deadline") == 0 {
		untils := []int64{int64(Unconfirmed), s.node - 1, s.node, s.node + 1, s.node + 5*second}
		r.Deadline = clock.ServerTime(rapid.SampledFrom(untils).Draw(s.t, "until"))
	}
	if rapid.IntRange(0, 5).Draw(s.t, "fence") == 0 {
		ends := []int64{s.node - 1, s.node, s.node + 5*second}
		r.Fence = clock.ServerTime(rapid.SampledFrom(ends).Draw(s.t, "fenced at"))
	}
	return r
}

// aim draws a settlement: of a grant that was, or of something near one, or a charge.
func (s *stage) aim() *SettleRequest {
	if rapid.IntRange(0, 2).Draw(s.t, "charge") == 0 {
		return &SettleRequest{
			Charge: rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, max(s.target/20, 1)),
				rapid.Int64Range(1, min(3*s.target+1, MaxPermits))).Draw(s.t, "charged"),
			Owed:     rapid.SampledFrom([]time.Duration{0, s.window, 3 * s.window, 9 * s.window}).Draw(s.t, "owed"),
			Proposal: s.proposal(), Relied: s.relied(), Caller: s.somebody(),
		}
	}
	if len(s.grants) == 0 {
		return nil
	}
	recent := s.grants[max(len(s.grants)-40, 0):]
	grant := recent[rapid.IntRange(0, len(recent)-1).Draw(s.t, "grant")]
	at := grant.At
	if s.algorithm == AlgorithmLeakyBucket {
		last := s.grants[len(s.grants)-1]
		at = last.RefundAt(last.Granted - 1)
	} else if rapid.IntRange(0, 4).Draw(s.t, "miss") == 0 {
		at += clock.ServerTime(rapid.Int64Range(-2, 2).Draw(s.t, "off by"))
	}
	permits := grant.Granted
	if rapid.Bool().Draw(s.t, "part") {
		permits = rapid.Int64Range(1, permits).Draw(s.t, "permits")
	}
	return &SettleRequest{Back: permits, At: at, Caller: s.somebody()}
}

// somebody is a participant, or nobody.
func (s *stage) somebody() (caller Caller) {
	for _, caller = range s.callers(rapid.IntRange(0, 1).Draw(s.t, "somebody")) {
		return caller
	}
	return caller
}

// bookings draws one reservation or a few close together.
func (s *stage) bookings() (steps []step) {
	p := s.proposal()
	for range rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 50)).Draw(s.t, "bookings") {
		book := &ReserveRequest{
			Proposal: p, Relied: s.relied(), Caller: s.somebody(),
			Permits: rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, max(s.target/20, 1)),
				rapid.Int64Range(1, min(max(s.target, 1)+1, MaxPermits))).Draw(s.t, "booked permits"),
			MaxDelay: rapid.SampledFrom([]time.Duration{0, s.window / 2, s.window, 3 * s.window,
				100 * s.window}).Draw(s.t, "most delay"),
		}
		if rapid.IntRange(0, 3).Draw(s.t, "not at once") == 0 {
			book.MinDelay = time.Duration(rapid.Int64Range(0, int64(book.MaxDelay)).Draw(s.t, "least delay"))
		}
		steps = append(steps, step{now: s.node, book: book})
		if rapid.IntRange(0, 3).Draw(s.t, "on") == 0 {
			s.node += rapid.Int64Range(0, int64(s.window/time.Microsecond)/logCells).Draw(s.t, "little")
		}
	}
	return steps
}

// crowd is many takes in a row: of participants who want more than there is, for long enough to be
// held back, or of nobody.
func (s *stage) crowd() (steps []step) {
	p, us := s.proposal(), int64(s.window/time.Microsecond)
	gap := rapid.OneOf(rapid.Int64Range(0, us/100), rapid.Just(us/logCells), rapid.Int64Range(1, us/20)).Draw(s.t,
		"gap")
	most := rapid.Int64Range(1, max(s.target/20, 1)).Draw(s.t, "size at most")
	several := rapid.IntRange(0, 4).Draw(s.t, "callers at most")
	for range rapid.IntRange(20, 100).Draw(s.t, "crowd") {
		s.node += gap
		r := &TakeRequest{Proposal: p, Callers: s.callers(several)}
		for range rapid.IntRange(min(several, 1), 1+several).Draw(s.t, "groups") {
			r.Groups = append(r.Groups, Group{
				Size:   rapid.Int64Range(1, most).Draw(s.t, "size"),
				Count:  rapid.Int64Range(1, 5).Draw(s.t, "count"),
				Caller: rapid.IntRange(0, max(several-1, 0)).Draw(s.t, "caller"),
			})
		}
		steps = s.takes(steps, r)
	}
	return steps
}

// callers draws participants.
func (s *stage) callers(count int) (callers []Caller) {
	for range count {
		id := fmt.Sprintf("%016x", rapid.IntRange(1, s.names).Draw(s.t, "participant"))
		caller := Caller{ID: id,
			Weight: rapid.SampledFrom([]int64{1, 1000, 1000, 2000, fairness.MaxWeight}).Draw(s.t, "weight")}
		switch rapid.IntRange(0, 9).Draw(s.t, "report") {
		case 0:
			caller.Unmet = rapid.SampledFrom([]int64{1, 1000, 77_777, fairness.MaxReport}).Draw(s.t, "unmet")
		case 1:
			caller.Waiting = rapid.SampledFrom([]int64{1, 30, fairness.MaxReport}).Draw(s.t, "waiting")
		}
		callers = append(callers, caller)
	}
	return callers
}

// saw tells the stage what a take or a reservation brought, so that later steps can aim.
func (s *stage) saw(reply TakeReply) {
	s.next = reply.Next
	if reply.Retry > 0 {
		s.next = reply.Retry
	}
	if reply.Granted > 0 {
		s.grants = append(s.grants, reply)
	}
}
