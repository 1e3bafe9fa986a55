package script

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/fairness"
)

// BookReply tells who contended for a shard lately, and how they stand.
type BookReply struct {
	Status    Status // OK or Absent
	Contended bool   // participants contend now, or did in the last two windows
	// Standings has an element for each participant that has an account, and first one, without an
	// ID, for all others together.
	Standings []fairness.Standing
}

// Book lists the participants that contend for a shard, at most [fairness.MaxAccounts]. It writes
// nothing and creates nothing. A shard whose participants do not contend, or whose book is damaged,
// has no standings.
func (e *Endpoint) Book(ctx context.Context, s ShardRef) (BookReply, error) {
	reply, err := e.run(ctx, s.program(bookProgram), s.keys(), nil)
	if err != nil {
		return BookReply{}, err
	}
	return parseBook(reply)
}

func parseBook(reply []rueidis.RedisMessage) (BookReply, error) {
	p := &programs[bookProgram]
	var n [5]int64
	if len(reply) != len(n)+1 {
		return BookReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return BookReply{}, err
	}
	text, err := reply[len(n)].ToString()
	if err != nil || !natural(n[:]) || n[0] > int64(OK) || n[0] == int64(OK) && n[3] < 1 {
		return BookReply{}, malformed(p, "out of range")
	}
	b := BookReply{Status: Status(n[0]), Contended: n[1] == 1}
	if book, err := fairness.ParseBook(text); err == nil && b.Contended {
		b.Standings = book.Standings(fairness.Term{Now: n[2], Window: n[3], Share: n[4]})
	}
	return b, nil
}

// Book lists the participants, as [Endpoint.Book] does.
func (l *SlidingLog) Book(now int64) BookReply {
	if l.epoch == 0 {
		return BookReply{}
	}
	v := l.clock(now)
	b := BookReply{Status: OK, Contended: l.fair.contended > 0 && l.fair.contended+2*l.window > v.now}
	if b.Contended {
		b.Standings = l.fair.book.Standings(l.term(v))
	}
	return b
}
