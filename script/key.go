package script

// ShardRef names the keys of one shard of one limit. The zero value names none, and calls with it
// fail with [ErrInvalidRequest].
type ShardRef struct {
	algorithm Algorithm
	head      string
	kind      int // where in head it says what is kept there
}

// Space is where the shards lie that differ only in their limits' names: what the names of their
// keys begin with. The zero value is nowhere.
type Space ShardRef

// Space returns where shards lie that count by this algorithm. prefix must not hold braces; tag is
// the hash tag that puts all keys of a shard into one slot, not empty and without braces;
// incarnation is that of their node, "" for shards without.
func (a Algorithm) Space(prefix, tag, incarnation string) Space {
	start := prefix + "{" + tag + "}"
	if incarnation != "" {
		start += "f" + incarnation + ":"
	}
	return Space{algorithm: a, head: start + letters[a] + ":", kind: len(start)}
}

// Keys returns the keys of the shard of a limit, which may have any name: prefix+end.
func (s Space) Keys(prefix, end string) ShardRef {
	if s.head == "" {
		return ShardRef{}
	}
	s.head = s.head + prefix + end
	return ShardRef(s)
}

// Keys returns the keys of one shard that counts by this algorithm; those of different algorithms
// differ.
func (a Algorithm) Keys(prefix, tag, name string) ShardRef {
	return a.Space(prefix, tag, "").Keys("", name)
}

// ShardKeys returns the keys of one shard that counts by a sliding log: see [Algorithm.Keys].
func ShardKeys(prefix, tag, name string) ShardRef {
	return AlgorithmSlidingLog.Keys(prefix, tag, name)
}

// keys returns the keys in the order in which the scripts declare them.
func (s ShardRef) keys() []string { return []string{s.head, s.Ledger()} }

// creating returns the keys of a script that may create the shard's state.
func (s ShardRef) creating(r *TakeRequest) []string {
	return []string{s.head, s.whole(r), s.Ledger()}
}

// whole returns the key that tells since when the server has its memory, which is that of all
// shards of the tag. A request that has seen the state, or starts fresh after a loss, does not need
// it. While the slot is on its way to another server it may be at the other one: so such a request
// names the state once more.
func (s ShardRef) whole(r *TakeRequest) string {
	if s.head == "" || r.Seen || r.Proposal != nil && r.Proposal.lasts == 0 {
		return s.head
	}
	return s.head[:s.kind] + "w"
}

// Head returns the key of the shard's state.
func (s ShardRef) Head() string { return s.head }

// Ledger returns the key of the accounts that participants have while they contend.
func (s ShardRef) Ledger() string {
	if s.head == "" {
		return ""
	}
	return s.head[:s.kind] + "b" + s.head[s.kind:]
}
