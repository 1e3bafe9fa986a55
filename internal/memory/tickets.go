package memory

import "sync"

// MostTickets is how many refunds of decisions that are still in their window are remembered,
// unless Tickets.Most says otherwise. One takes about 120 bytes.
const MostTickets = 16_384

// Tickets remembers which decisions were refunded, so that each is refunded once however often it
// was copied. A grant that has left its window cannot be refunded any more, so neither need it be
// remembered. Of more than it may remember it forgets those that leave their window first, and
// refuses from then on every decision that leaves no later. It is safe for concurrent use.
type Tickets[K comparable] struct {
	Most int // 0: MostTickets

	mu   sync.Mutex
	used map[K]bool
	ends []ticketEnd[K] // a heap: none ends before its parent; some may be of tickets that were released
	mark int64          // what ends no later may have been forgotten
}

// ticketEnd says until when a ticket matters.
type ticketEnd[K comparable] struct {
	key   K
	until int64
}

// Claim reports which tickets of one decision, that ends then, were not used before, and uses
// them. tooOld tells that they may have been used and forgotten: then none is used now. All parts
// of a decision are claimed together, because what the first makes to be forgotten may be the
// decision itself.
func (t *Tickets[K]) Claim(now, until int64, keys ...K) (unused []bool, tooOld bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.ends) > 0 && t.ends[0].until <= now {
		t.pop()
	}
	unused = make([]bool, len(keys))
	if until <= t.mark {
		return unused, true
	}
	most := t.Most
	if most == 0 {
		most = MostTickets
	}
	if t.used == nil {
		t.used = make(map[K]bool)
	}
	for i, k := range keys {
		if unused[i] = !t.used[k]; unused[i] {
			t.used[k] = true
			t.push(ticketEnd[K]{k, until})
		}
	}
	for len(t.ends) > most {
		t.mark = t.ends[0].until
		t.pop()
	}
	return unused, false
}

// Release has a ticket be one that was not used.
func (t *Tickets[K]) Release(k K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.used, k)
}

// push adds an end. t.mu is held.
func (t *Tickets[K]) push(e ticketEnd[K]) {
	t.ends = append(t.ends, e)
	i := len(t.ends) - 1
	for i > 0 && t.ends[i].until < t.ends[(i-1)/2].until {
		t.ends[i], t.ends[(i-1)/2] = t.ends[(i-1)/2], t.ends[i]
		i = (i - 1) / 2
	}
}

// pop forgets the ticket that ends first. t.mu is held.
func (t *Tickets[K]) pop() {
	delete(t.used, t.ends[0].key)
	last := len(t.ends) - 1
	t.ends[0], t.ends[last] = t.ends[last], ticketEnd[K]{}
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
