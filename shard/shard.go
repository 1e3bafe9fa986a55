// Package shard decides how one limit is divided: which shards it has, where
// they live, how many permits each may grant, and how those shares move from
// one arrangement to the next without ever adding up to more than the limit.
//
// It is for shardlimit itself: no release promises anything of its API. See "Versions" in
// CONTRIBUTING.md.
//
// Everything here is a pure function or a plain value: no I/O, no clock, no
// goroutines. Given equal arguments every process computes equal results,
// which is what lets processes that never talk to each other agree. All
// functions are safe for concurrent use.
//
// Stable for ever, because the results name keys that exist in Redis: [Slot],
// [Tag], [Positions] and the JSON form of [Layout]. The results of [Place] and [Rank]
// may change between releases: a placement is stored in the layout, and a rank is only a
// preference.
//
// A layout is a value that a majority of places keeps and that is replaced by compare-and-set.
// Epochs only number layouts. A layout names no instant, as no two clocks need agree: whoever reads
// it learns for how long at least it has been held, by the clocks of the places, and every method
// that makes the next one is told.
package shard

import "time"

// Unknown is the Start of a shard whose share at the beginning of a transition
// is not known, because the layout before it had not settled.
const Unknown int64 = -1

// Bounds that [Layout.Validate] enforces.
const (
	MaxPermits int64 = 1e12      // of a limit, and so of a share
	MaxEpoch   int64 = 1<<53 - 1 // epochs pass through Lua numbers, which are doubles
	MinWindow        = time.Millisecond
	MaxWindow        = 31 * 24 * time.Hour // of a window with its lease
)

// Shard is one part of a limit. (Slot, Node, Algorithm, Incarnation) identifies it: state of one
// algorithm means nothing to another, so a limit whose algorithm changes moves from shards to
// shards, and so does one that comes under a fence.
type Shard struct {
	Slot int    `json:"slot"` // hash slot of all keys of the shard, 0..Slots-1
	Node string `json:"node"` // name of the configured node that holds it
	// Algorithm counts there; [New] and [Layout.Change] set it for live shards.
	Algorithm string `json:"algorithm"`
	Share     int64  `json:"share"` // permits per window it is to have; 0: leaving, its capacity is being moved away
	// Burst is its part of the layout's burst, 0 if that is 0 or the shard is leaving; New and
	// Change set it.
	Burst       int64  `json:"burst,omitempty"`
	Incarnation string `json:"incarnation,omitempty"` // of its node that it is of, see [Fence]; "" where there is no fence
	// Start is the share in the settled layout before this one, or Unknown; meaningful only while
	// the layout is unsettled.
	Start int64 `json:"start,omitempty"`
}

// Location is a place for a key: a hash slot on a node.
type Location struct {
	Slot int    `json:"slot"`
	Node string `json:"node"`
}

// Node is a Redis endpoint that can carry shards.
type Node struct {
	Name        string  `json:"name"`                  // stable identity; equal names are the same node
	Weight      float64 `json:"weight"`                // relative capacity, > 0 and finite
	Incarnation string  `json:"incarnation,omitempty"` // of a family under a [Fence]: that of the shards of keys there
}
