package limittest

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/script"
)

// Demise is the end of a process: when it has changed a limit's record and told
// so many shards, nothing that it sends arrives any more.
type Demise struct {
	Armed, Dead atomic.Bool
	Heard       int64 // shards to be told before
	End         func()
	changed     atomic.Bool
	told        atomic.Int64
	accepted    atomic.Int64 // by places of the record
}

// Mortal is a Redis client of a process that dies.
type Mortal struct {
	rueidis.Client
	*Demise
}

func (m *Mortal) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	accepts, takes, majority := false, false, int64(0)
	if words[0] == "EVAL" || words[0] == "EVALSHA" {
		accepts, majority = acceptsLayout(words)
		takes = !IsOfARecord(words[3]) // near enough: between the record and the shards it only proposes
	}
	if m.changed.Load() && takes && m.told.Add(1) > m.Heard {
		m.die()
	}
	if m.Dead.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
		return m.Client.Do(ctx, cmd)
	}
	result := m.Client.Do(ctx, cmd)
	if accepts && m.Armed.Load() && result.Error() == nil && m.accepted.Add(1) == majority {
		m.changed.Store(true)
		if m.Heard == 0 {
			m.die()
		}
	}
	return result
}

// acceptsLayout reports whether a script call has a place of a limit's record accept a layout, and
// of how many places that makes a majority.
func acceptsLayout(words []string) (accepts bool, majority int64) {
	keys, err := strconv.Atoi(words[2])
	if err != nil || !strings.Contains(words[3], "}:m:") || !strings.Contains(words[3], ":limit:") {
		return false, 0
	}
	majority = 1 // a place that is alone is called without a pointer
	if keys > 3 {
		majority = 2
	}
	return words[3+keys] == strconv.Itoa(script.VoteAccept), majority
}

func (d *Demise) die() {
	if !d.Dead.Swap(true) {
		d.End()
	}
}

// IsOfARecord matches the keys of records, of who uses them, and the pointer that tells where they
// are.
func IsOfARecord(key string) bool {
	return strings.Contains(key, "}:m:") || strings.Contains(key, "}:p:") || strings.HasSuffix(key, "}:p")
}
