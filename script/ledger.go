package script

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/fairness"
)

// LedgerReply tells who contended for a shard lately, and how they stand.
type LedgerReply struct {
	Status    Status // OK or Absent
	Contended bool   // participants contend now, or did in the last two windows
	// Standings has an element for each participant that has an account, and first one, without an
	// ID, for all others together.
	Standings []fairness.Standing
}

// Ledger lists the participants that contend for a shard, at most [fairness.MaxAccounts]. It writes
// nothing and creates nothing. A shard whose participants do not contend, or whose ledger is
// damaged, has no standings.
func (e *Endpoint) Ledger(ctx context.Context, s ShardRef) (LedgerReply, error) {
	return ask(ctx, e, s.algorithm.programOf(ledgerProgram), s.keys(), nil, parseLedger)
}

func parseLedger(p *program, reply []rueidis.RedisMessage) (LedgerReply, error) {
	var n [4]int64
	if len(reply) != len(n)+1 {
		return LedgerReply{}, malformed(p, "wrong length")
	}
	if err := counts(p, reply[:len(n)], n[:], nil); err != nil {
		return LedgerReply{}, err
	}
	fields, err := reply[len(n)].AsStrMap()
	if err != nil || n[0] > int64(OK) || n[1] > 1 || max(n[0], n[1]) > 0 && n[3] < 1 {
		return LedgerReply{}, malformed(p, "out of range")
	}
	b := LedgerReply{Status: Status(n[0]), Contended: n[1] == 1}
	if b.Contended {
		b.Standings, _ = fairness.Standings(fields, n[2], n[3])
	}
	return b, nil
}
