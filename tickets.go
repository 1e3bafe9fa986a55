package shardlimit

import (
	"sync"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
)

// How many refunds of decisions that are still in their window a process remembers, of a limit and
// of a key of a family. One takes about 120 bytes.
const (
	mostTickets = 16_384
	keyTickets  = 256
)

// tickets remembers which decisions were refunded, so that each is refunded once however often it
// was copied. A grant that has left its window cannot be refunded any more, so neither need it be
// remembered. Of more than it may remember it forgets those that leave their window first, and
// refuses from then on every decision that leaves no later.
type tickets struct {
	most int // 0: mostTickets

	mu   sync.Mutex
	used map[ticketKey]bool
	ends []ticketEnd // a heap: none ends before its parent; some may be of tickets that were released
	mark int64       // what ends no later may have been forgotten
}

type ticketKey struct {
	first  *lane.Seat // with lease and number: which decision
	lease  *lease
	engine *local.Engine
	number uint64
	part   int // which of its parts, of which two may be of one shard
}

// ticketEnd says until when a ticket matters.
type ticketEnd struct {
	key   ticketKey
	until int64
}

// claim reports which tickets of one decision, that ends then, were not used before, and uses
// them. tooOld tells that they may have been used and forgotten: then none is used now. All parts
// of a decision are claimed together, because what the first makes to be forgotten may be the
// decision itself.
func (t *tickets) claim(now, until int64, keys ...ticketKey) (unused []bool, tooOld bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.ends) > 0 && t.ends[0].until <= now {
		t.pop()
	}
	unused = make([]bool, len(keys))
	if until <= t.mark {
		return unused, true
	}
	most := t.most
	if most == 0 {
		most = mostTickets
	}
	if t.used == nil {
		t.used = make(map[ticketKey]bool)
	}
	for i, k := range keys {
		if unused[i] = !t.used[k]; unused[i] {
			t.used[k] = true
			t.push(ticketEnd{k, until})
		}
	}
	for len(t.ends) > most {
		t.mark = t.ends[0].until
		t.pop()
	}
	return unused, false
}

func (t *tickets) release(k ticketKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.used, k)
}

// push adds an end. t.mu is held.
func (t *tickets) push(e ticketEnd) {
	t.ends = append(t.ends, e)
	i := len(t.ends) - 1
	for i > 0 && t.ends[i].until < t.ends[(i-1)/2].until {
		t.ends[i], t.ends[(i-1)/2] = t.ends[(i-1)/2], t.ends[i]
		i = (i - 1) / 2
	}
}

// pop forgets the ticket that ends first. t.mu is held.
func (t *tickets) pop() {
	delete(t.used, t.ends[0].key)
	last := len(t.ends) - 1
	t.ends[0], t.ends[last] = t.ends[last], ticketEnd{}
	t.ends = t.ends[:last]
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < last && t.ends[k].until < t.ends[least].until {
				least = k
			}
		}
		if least == i {
			return
		}
		t.ends[i], t.ends[least] = t.ends[least], t.ends[i]
		i = least
	}
}
