package script

import (
	"slices"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/columns"
)

// This file is about takes that take.lua serves: those from logs that are as proposed.

// calmTerms is how many arguments take.lua has for all sections that ask the same.
const calmTerms = 2

// calmTake is what take.lua is told of sections that propose and ask the same.
type calmTake struct {
	layout, terms, life string // of the proposal
	n, part             int64  // permits: all of them, or with part 1 as many as there are
	fence               int64
	until, need         int64 // when state may be created
}

// calmTexts are what take.lua is told of a proposal: the first columns, and the time to live.
func (p *Proposal) calmTexts(life int64) (text, lives string) {
	by, known := logs[p.algorithm]
	if !known || p.epoch == 0 || p.floor == 0 {
		return "", ""
	}
	exact := int64(mostEntries)
	if p.floor > by.exactShare && !by.fixed {
		exact = int64(by.exactLive)
	}
	return string(columns.Calm.Append(nil, 0, p.floor, p.window, p.window/by.cells, exact)),
		number(milliseconds(duration(p.window)) + life)
}

// calm returns what take.lua is told of the request; ok is false if only the full take can serve
// it.
func (r *TakeRequest) calm() (c calmTake, ok bool) {
	p := r.Proposal
	if r.Rare || p.calmText == "" || len(r.Groups) == 0 || r.reports() == 1 {
		return c, false
	}
	c = calmTake{layout: p.layoutText, terms: p.calmText, life: p.calmLife, fence: int64(r.Fence), until: r.until()}
	if first := r.Groups[0]; len(r.Groups) == 1 && first.Size == 1 && len(r.Callers) == 0 {
		c.n, c.part = min(first.Count, p.floor), 1
	} else {
		for _, g := range r.Groups {
			if g.Count > (p.floor-c.n)/g.Size {
				return c, false
			}
			c.n += g.Size * g.Count
		}
	}
	c.need = max(min(p.lasts, r.known()-slack), 0)
	if p.lasts > 0 && r.Seen {
		c.until = 0
	}
	return c, true
}

func (c *calmTake) arguments(args []string) []string {
	var room [256]byte
	text := columns.Calm.Append(append(room[:0], c.terms...), 4, c.n, c.part, c.fence, c.until, c.need)
	return append(args, string(append(text, c.layout...)), c.life)
}

// newCalmCall returns what a call of take.lua for the sections consists of.
func newCalmCall(sections []*Section) (keys, args []string) {
	keys, args = make([]string, len(sections)+1), make([]string, 1, 1+calmTerms)
	plan := make([]byte, 0, mostSections)
	var room [4]calmTake
	told := room[:0]
	for i, s := range sections {
		keys[i] = s.Ref.head
		now, _ := s.Request.calm()
		at := slices.Index(told, now)
		if at < 0 {
			at, told, args = len(told), append(told, now), now.arguments(args)
		}
		plan = append(plan, byte('0'+at))
	}
	keys[len(sections)] = wholeOf(sections)
	if len(told) > 1 {
		args[0] = string(plan)
	}
	return keys, args
}

// existing returns what a call for one section consists of that creates no state.
func existing(s *Section) (keys, args []string) {
	c, _ := s.Request.calm()
	c.until = 0
	return []string{s.Ref.head, s.Ref.head}, c.arguments([]string{""})
}

// readTime reads the text that take.lua replies: the time, and what it tells of sections.
func (p *program) readTime(reply []rueidis.RedisMessage) (now clock.ServerTime, rest string, err error) {
	if len(reply) != 1 {
		return 0, "", malformed(p, "wrong length")
	}
	text, err := reply[0].ToString()
	var us [1]int64
	if err != nil || !columns.Once.Numbers(text, us[:]) || us[0] > maxTime {
		return 0, "", malformed(p, "no time")
	}
	return clock.ServerTime(us[0]), text[columns.Once.Columns[0].Width:], nil
}

// readCalm takes in what take.lua replied, and marks the sections that it left to the full take.
func readCalm(sections []*Section, reply []rueidis.RedisMessage) error {
	now, text, err := calmScript.readTime(reply)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if text == "" {
			return malformed(calmScript, "too short")
		}
		own := 1
		if text[0] == 0 {
			own = min(columns.Told.Bytes(), len(text))
		}
		s.readCalm(now, text[:own])
		text = text[own:]
	}
	if text != "" {
		return malformed(calmScript, "too long")
	}
	return nil
}

// What take.lua tells of a section, unless it is what columns.Told says.
const (
	calmCreated = "\x01"
	calmLook    = "\x02" // it left the section to the full take
)

// told is the reply where all is as proposed: columns.Told of the state, or of a new one. It tells
// of no grants.
func (p *Proposal) told(now clock.ServerTime, own string) (t TakeReply, sound bool) {
	var n [4]int64
	if t.Status = OK; own == calmCreated {
		t.Status, n[0], n[2] = Fresh, p.floor, p.window
		if logs[p.algorithm].fixed {
			n[2] -= int64(now) % p.window
		}
		n[1] = n[2]
	} else if !columns.Told.Numbers(own, n[:]) {
		return t, false
	}
	t.InForce, t.At = InForce{Epoch: p.epoch, Target: p.target, Share: p.floor}, now
	t.Before, t.Next, t.Reset, t.Early = n[0], duration(n[1]), duration(n[2]), n[3] > 0
	return t, n[0] <= p.floor && n[1] <= n[2] && n[3] <= 1
}

// gives notes how many permits were granted.
func (t *TakeReply) gives(granted int64) {
	t.Granted, t.Free, t.Used = granted, t.Before-granted, t.Share-t.Before+granted
}

func (s *Section) readCalm(now clock.ServerTime, own string) {
	r := s.Request
	s.Reply, s.Err, s.full = TakeReply{}, nil, own == calmLook
	if s.full {
		return
	}
	t, sound := r.Proposal.told(now, own)
	if !sound || t.Next == 0 {
		s.Err = malformed(calmScript, "out of range")
		return
	}
	var granted int64
	t.Grants, granted = Distribute(r.Room[:0], t.Before, r.Groups)
	t.gives(granted)
	for i, g := range r.Groups {
		if t.Grants[i] < g.Count {
			t.Retry = t.Next
			if len(r.Groups) > 1 || g.Size > 1 || len(r.Callers) > 0 {
				s.Err = malformed(calmScript, "it refuses what it must not")
				return
			}
		}
	}
	s.Reply = t
}

// paced reports whether the paced take may serve the request: it knows of single permits only, and
// of shares that are not on their way.
func (r *TakeRequest) paced() bool {
	p := r.Proposal
	return r.Contended && len(r.Callers) > 0 && len(r.Groups) > 0 && p.calmText != "" && p.floor == p.target &&
		!slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Size > 1 })
}

// pacedArguments returns what the paced take is told: who wants what, and then what take.lua is,
// but that nothing may be created.
func (r *TakeRequest) pacedArguments() []string {
	p := r.Proposal
	c := calmTake{layout: p.layoutText, terms: p.calmText, life: p.calmLife, fence: int64(r.Fence)}
	return c.arguments(append(make([]string, 0, 1+calmTerms), r.asks()))
}

// readPaced takes in what the paced take replied; paced is false if it left all to the full take.
func (s *Section) readPaced(reply []rueidis.RedisMessage) (paced bool, err error) {
	r := s.Request
	now, text, err := pacedScript.readTime(reply)
	if err == nil && text == calmLook {
		return false, nil
	}
	told, count := columns.Told.Bytes(), 2+len(r.Groups)+len(r.Callers)
	if err != nil || len(text) != told+count*columns.Paced.Bytes() {
		return true, malformed(pacedScript, "no numbers")
	}
	t, sound := r.Proposal.told(now, text[:told])
	var n [2 + MaxGroups + MaxCallers]int64
	for i := range count {
		columns.Paced.Numbers(text[told+i*columns.Paced.Bytes():], n[i:i+1])
	}
	t.gives(n[0])
	t.Retry = duration(n[1])
	if window := duration(r.Proposal.window); !sound || t.Reset > window || t.Retry > window {
		return true, malformed(pacedScript, "out of range")
	}
	t.Grants = r.Room[:0]
	if err := t.parseContended(pacedScript, n[2:count], r); err != nil {
		return true, err
	}
	s.Reply, s.Err = t, nil
	return true, nil
}
