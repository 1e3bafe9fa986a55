package script

import (
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// This file is about takes that take.lua serves: those from logs that are as proposed.

// calmLength is how many numbers take.lua replies for each section, and calmTerms how many
// arguments it has for all sections that ask the same.
const calmLength, calmTerms = 3, 10

// calmTake is what take.lua is told of sections that propose and ask the same.
type calmTake struct {
	proposal    *Proposal
	n           int64 // permits: all of them, or below zero as many as there are
	fence       int64
	until, need int64 // when state may be created
}

// calmText is what take.lua is told of a proposal: how the state begins in which it is in force;
// share, window, time to live, cell, exact entries.
func (p *Proposal) calmText(life int64) (texts [6]string) {
	by, known := logs[p.algorithm]
	if !known || p.epoch == 0 || p.floor == 0 {
		return texts
	}
	exact := int64(mostEntries)
	if p.floor > by.exactShare && !by.fixed {
		exact = int64(by.exactLive)
	}
	return [6]string{p.layoutText, number(p.floor), number(p.window),
		number(milliseconds(duration(p.window)) + life), number(p.window / by.cells), number(exact)}
}

// calm returns what take.lua is told of the request; ok is false if only the full take can serve
// it.
func (r *TakeRequest) calm() (c calmTake, ok bool) {
	p := r.Proposal
	if r.Rare || p.calmTexts[0] == "" || len(r.Groups) == 0 || r.reports() == 1 {
		return c, false
	}
	c = calmTake{proposal: p, fence: r.Fence, until: maxTime}
	if first := r.Groups[0]; len(r.Groups) == 1 && first.Size == 1 && len(r.Callers) == 0 {
		c.n = -min(first.Count, p.floor)
	} else {
		for _, g := range r.Groups {
			if g.Count > (p.floor-c.n)/g.Size {
				return c, false
			}
			c.n += g.Size * g.Count
		}
	}
	if r.Deadline != 0 {
		c.until = max(r.Deadline, 0)
	}
	if p.quarantine {
		c.need = max(min(p.lasts, r.known()-slack), 0)
		if r.Seen {
			c.until = 0
		}
	}
	return c, true
}

// alike reports whether both are told the same.
func (c *calmTake) alike(other *calmTake) bool {
	return c.n == other.n && c.until == other.until && c.fence == other.fence && c.need == other.need &&
		(c.proposal == other.proposal || c.proposal.calmTexts == other.proposal.calmTexts)
}

func (c *calmTake) arguments(args []string) []string {
	args = append(args, c.proposal.calmTexts[:]...)
	for _, n := range [...]int64{c.n, c.fence, c.until, c.need} {
		args = append(args, calmNumber(n, c.proposal))
	}
	return args
}

// calmNumber allocates nothing for what most calls say.
func calmNumber(n int64, p *Proposal) string {
	switch {
	case n == maxTime:
		return maxTimeText
	case n == p.window:
		return p.calmTexts[2]
	case n == -1:
		return "-1"
	}
	return number(n)
}

var maxTimeText = strconv.FormatInt(maxTime, 10)

// newCalmCall returns what a call of take.lua for the sections consists of.
func newCalmCall(sections []*Section) *manyCall {
	c := &manyCall{keys: make([]string, len(sections)+1), args: make([]string, 1, 1+calmTerms)}
	var plan [MaxSections]byte
	var room [4]calmTake
	told := room[:0]
	for i, s := range sections {
		c.keys[i] = s.Ref.head
		now, _ := s.Request.calm()
		at := len(told) - 1
		for at >= 0 && !told[at].alike(&now) {
			at--
		}
		if at < 0 {
			at, told, c.args = len(told), append(told, now), now.arguments(c.args)
		}
		plan[i] = byte('0' + at)
	}
	c.keys[len(sections)] = wholeOf(sections)
	if len(told) > 1 {
		c.args[0] = string(plan[:len(sections)])
	}
	return c
}

// existing returns what a call for one section consists of that creates no state.
func existing(keys, args []string) (_, _ []string) {
	args = slices.Clone(args)
	args[calmTerms-1] = "0"
	return []string{keys[0], keys[0]}, args
}

// readCalm takes in what take.lua replied, and marks the sections that it left to the full take.
func readCalm(sections []*Section, reply []rueidis.RedisMessage) error {
	p := &programs[calmProgram]
	var room [1 + calmLength*MaxSections]int64
	n := room[:1+calmLength*len(sections)]
	if len(reply) != len(n) {
		return malformed(p, "wrong length")
	}
	if err := integers(p, reply, n); err != nil {
		return err
	}
	for i, s := range sections {
		s.readCalm(n[0], n[1+calmLength*i:][:calmLength])
	}
	return nil
}

// readCalm takes in the free permits, the time until more are, 0 if the state was created, and that
// until all are.
func (s *Section) readCalm(now int64, n []int64) {
	r := s.Request
	p, free, next, reset := r.Proposal, n[0], n[1], n[2]
	s.Reply, s.Err = TakeReply{}, nil
	if s.full = free == -1 && next == 0 && reset == 0; s.full {
		return
	}
	if now < 0 || free < 0 || free > p.floor || next < 0 || next > reset || reset < 1 || next == 0 && free != p.floor {
		s.Err = malformed(&programs[calmProgram], "out of range")
		return
	}
	t := TakeReply{Status: OK, Epoch: p.epoch, Target: p.target, Share: p.floor, Before: free, At: now}
	if next == 0 {
		t.Status, next = Fresh, reset
	}
	t.Grants, t.Granted = Distribute(r.Room[:0], free, r.Groups)
	t.Free, t.Used, t.Next, t.Reset = free-t.Granted, p.floor-free+t.Granted, duration(next), duration(reset)
	for i, g := range r.Groups {
		if t.Grants[i] < g.Count {
			t.Retry = t.Next
			if len(r.Groups) > 1 || g.Size > 1 || len(r.Callers) > 0 {
				s.Err = malformed(&programs[calmProgram], "it refuses what it must not")
				return
			}
		}
	}
	s.Reply = t
}

// paced reports whether the paced take may serve the request: it knows of single permits only.
func (r *TakeRequest) paced() bool {
	return r.Contended && len(r.Callers) > 0 && len(r.Groups) > 0 && r.Proposal.calmTexts[0] != "" &&
		!slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Size > 1 })
}

// pacedArguments returns what the paced take is told: what the full take is, and then what take.lua
// is, but that nothing may be created.
func (r *TakeRequest) pacedArguments() []string {
	c := calmTake{proposal: r.Proposal, fence: r.Fence}
	return c.arguments(r.arguments(make([]string, 0, 3+calmTerms)))
}

// readPaced takes in what the paced take replied; paced is false if it left all to the full take.
func (s *Section) readPaced(reply []rueidis.RedisMessage) (paced bool, err error) {
	p, r := &programs[pacedProgram], s.Request
	if len(reply) <= calmLength+1 {
		return false, nil
	}
	var n [1 + calmLength]int64
	if err := integers(p, reply, n[:]); err != nil {
		return true, err
	}
	rest, err := reply[len(n)].ToArray()
	if err != nil {
		return true, malformed(p, "no list")
	}
	var own [2]int64
	if err := integers(p, rest, own[:]); err != nil {
		return true, err
	}
	floor, granted, retry := r.Proposal.floor, own[0], own[1]
	if !natural(own[:]) || !natural(n[:]) || n[1] > floor || granted > n[1] {
		return true, malformed(p, "out of range")
	}
	t := TakeReply{Status: OK, Epoch: r.Proposal.epoch, Target: r.Proposal.target, Share: floor, Before: n[1],
		Granted: granted, Free: n[1] - granted, Used: floor - n[1] + granted, At: n[0], Next: duration(n[2]),
		Retry: duration(retry), Reset: duration(n[3]), Grants: r.Room[:0]}
	if err := t.parseContended(p, rest[len(own):], r); err != nil {
		return true, err
	}
	s.Reply, s.Err = t, nil
	return true, nil
}
