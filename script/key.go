package script

import "strings"

// ShardRef names the two keys of one shard of one limit. The zero value names none, and calls with it fail with [ErrInvalidRequest].
type ShardRef struct {
	head, log string
}

// ShardKeys returns the keys of one shard. prefix must not hold braces; tag is the hash tag that puts both keys into one slot, not empty and
// without braces; name is the limit's name and may hold any bytes. Where prefix or tag are not so, the zero ShardRef comes back.
func ShardKeys(prefix, tag, name string) ShardRef {
	if !taggable(prefix, tag) {
		return ShardRef{}
	}
	return ShardRef{head: prefix + "{" + tag + "}:h:" + name, log: prefix + "{" + tag + "}:l:" + name}
}

// Head returns the key of the shard's head: configuration, totals and the open entry.
func (s ShardRef) Head() string { return s.head }

// Log returns the key of the shard's log of closed entries.
func (s ShardRef) Log() string { return s.log }

// RecordRef names the two keys of a limit's record. The zero value names none, and calls with it fail with [ErrInvalidRequest].
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

// Record returns the key of the record itself.
func (r RecordRef) Record() string { return r.record }

// Participants returns the key of the set of participants.
func (r RecordRef) Participants() string { return r.participants }

func taggable(prefix, tag string) bool {
	return tag != "" && !strings.ContainsAny(tag, "{}") && !strings.ContainsAny(prefix, "{}")
}
