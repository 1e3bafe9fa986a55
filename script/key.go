package script

import "strings"

// ShardRef names the keys of one shard of one limit. The zero value names none, and calls with it
// fail with [ErrInvalidRequest].
type ShardRef struct {
	algorithm    Algorithm
	head, ledger string
}

// Keys returns the keys of one shard that counts by this algorithm; those of different algorithms
// differ. prefix must not hold braces; tag is the hash tag that puts all keys into one slot, not
// empty and without braces; name is the limit's name and may hold any bytes. Where prefix or tag
// are not so, or the algorithm is not one of ours, the zero ShardRef comes back.
func (a Algorithm) Keys(prefix, tag, name string) ShardRef {
	if a >= algorithms || !taggable(prefix, tag) {
		return ShardRef{}
	}
	key := func(kind string) string { return prefix + "{" + tag + "}:" + kind + ":" + name }
	return ShardRef{algorithm: a, head: key(heads[a]), ledger: key("b" + heads[a])}
}

// KeysInLife is Keys for a shard that is of a life of its node: "" is that of shards without.
func (a Algorithm) KeysInLife(prefix, tag, life, name string) ShardRef {
	ref := a.Keys(prefix, tag, name)
	if ref.head == "" || life == "" {
		return ref
	}
	mark := func(key string) string {
		at := len(prefix) + len("{}:") + len(tag)
		return key[:at] + "f" + life + ":" + key[at:]
	}
	ref.head, ref.ledger = mark(ref.head), mark(ref.ledger)
	return ref
}

// ShardKeys returns the keys of one shard that counts by a sliding log: see [Algorithm.Keys].
func ShardKeys(prefix, tag, name string) ShardRef {
	return AlgorithmSlidingLog.Keys(prefix, tag, name)
}

// Algorithm returns how the shard counts.
func (s ShardRef) Algorithm() Algorithm { return s.algorithm }

// keys returns the keys in the order in which the scripts declare them.
func (s ShardRef) keys() [2]string { return [2]string{s.head, s.ledger} }

// Head returns the key of the shard's state.
func (s ShardRef) Head() string { return s.head }

// program returns the number of the program for an operation on the shard.
func (s ShardRef) program(operation int) int {
	return recordPrograms + int(s.algorithm)*shardOperations + operation
}

// Ledger returns the key of the accounts that participants have while they contend.
func (s ShardRef) Ledger() string { return s.ledger }

// RecordRef names the two keys of a limit's record. The zero value names none, and calls with it
// fail with [ErrInvalidRequest].
type RecordRef struct {
	record, participants string
}

// RecordKeys returns the keys of one copy of a limit's record, under the same rules as [ShardKeys].
func RecordKeys(prefix, tag, name string) RecordRef {
	if !taggable(prefix, tag) {
		return RecordRef{}
	}
	return RecordRef{record: prefix + "{" + tag + "}:r:" + name, participants: prefix + "{" + tag + "}:p:" + name}
}

func (r RecordRef) keys() [2]string { return [2]string{r.record, r.participants} }

// Record returns the key of the record itself.
func (r RecordRef) Record() string { return r.record }

// Participants returns the key of the set of participants.
func (r RecordRef) Participants() string { return r.participants }

func taggable(prefix, tag string) bool {
	return tag != "" && !strings.ContainsAny(tag, "{}") && !strings.ContainsAny(prefix, "{}")
}
