package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// State is what Peek found: the limit, its layout and what is in use.
type State struct {
	Limit   Limit // for a key of a Family the one that its Limiter brings
	Epoch   int64 // number of the layout
	Settled bool  // false while capacity still moves between shards after SetLimit
	// Used counts permits in the current window, and under every algorithm but FixedWindow those
	// that are reserved for later, over all shards that answered.
	Used int64
	// Remaining is what a call would be granted now if nobody contends, over all shards that
	// answered: exact when they all did. Under SlidingLog and FixedWindow permits can be free
	// beside those that are reserved for later, so with Used it can be more than the limit.
	Remaining int64
	// RetryAfter is 0 if a permit is free, else the time until the first one is. It is never early.
	// With more than about 30 grants in a shard's window it may be late by a thirtieth of the
	// window, and by more behind a reservation.
	RetryAfter time.Duration
	// ResetAfter is the time until the whole limit is free and stays so, if nothing is used but
	// what is reserved.
	ResetAfter time.Duration
	// Participants is the number of processes that used the limit lately, as last heard.
	Participants int64
	Shards       []ShardState
	// Records are the nodes that keep the records of the key prefix, as last heard.
	Records []string
	// Takeover tells that the others take over what a lost node has of the limit: it was declared
	// with Config.NodeTimeout.
	Takeover bool
	// Lost are the nodes that are lost: what they have is being taken over, or was if Settled.
	Lost []string
}

// ShardState is one shard of a State. After SetLimit has changed the algorithm, a
// place can hold two of them until the old one is empty.
type ShardState struct {
	Tag       string    // hash tag of its keys
	Slot      int       // Redis Cluster slot of the tag
	Node      string    // name of the node
	Algorithm Algorithm // by which it counts
	Target    int64     // share of the limit it is meant to have
	Share     int64     // share it has now
	Used      int64     // permits in its window, and reserved for later, as in State
	Free      int64     // permits it would grant now
	// Quarantine is how long the shard stays shut because its node lost its memory.
	Quarantine time.Duration
	// Err is set if the shard did not answer; the numbers are then zero.
	Err error
}

// stateOf returns a State of the engine for users.
func stateOf(in *call.State) State {
	st := State{Limit: limitOf(in.Limit), Epoch: in.Epoch, Settled: in.Settled,
		Used: in.Used, Remaining: in.Remaining, RetryAfter: in.RetryAfter, ResetAfter: in.ResetAfter,
		Participants: in.Participants, Records: in.Records, Takeover: in.Takeover, Lost: in.Lost}
	for i := range in.Shards {
		s := &in.Shards[i]
		st.Shards = append(st.Shards, ShardState{Tag: s.Tag, Slot: s.Slot, Node: s.Node,
			Algorithm: Algorithm(s.Algorithm), Target: s.Target, Share: s.Share, Used: s.Used, Free: s.Free,
			Quarantine: s.Quarantine, Err: s.Err})
	}
	return st
}

// ParticipantState is how a participant stands while the participants of a limit
// contend. All numbers are sums over the shards on which it has an account.
type ParticipantState struct {
	// ID is ParticipantID of its name: Redis does not know the name. It is empty
	// for the account that those share who have none of their own, because they
	// were never seen before or are too many.
	ID string
	// Weight as it last gave it, MinWeight to MaxWeight; of the shared account that of a newcomer.
	Weight float64
	// Used is about how many permits it took in the last half window.
	Used int64
	// Demand is how many permits per window it wanted lately, as far as its use bears that out.
	Demand float64
	// Entitlement is the permits per window at which it was paced when it last told what it
	// wants, on the shards that held it back; 0 if none did.
	Entitlement float64
}

// ParticipantID returns the ID under which Redis knows a participant: the first 64 bits of the
// SHA-256 of its name, as 16 hexadecimal digits. Nobody can choose a name that has the ID of
// somebody else's, and so its account: it takes 2^64 tries. It does not hide: who can guess a name
// can check the guess.
func ParticipantID(name string) string { return limit.ParticipantID(name) }

// Bounds of a participant's weight. Scripts keep weights in thousandths.
const (
	MinWeight = limit.MinWeight // a thousandth
	MaxWeight = limit.MaxWeight // a thousand
)
