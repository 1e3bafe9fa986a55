package script

import (
	"strconv"

	"github.com/shardlimit/shardlimit/internal/columns"
)

const (
	wrap         = 1_000_000_000_000_000 // totals run modulo this
	exactShare   = 128                   // a sliding log with a share up to this has an entry for each grant
	exactLive    = 32                    // and so has another while fewer are alive
	logCells     = 128                   // of a window, for each of which a sliding log has an entry else
	counterCells = 16                    // for each of which a sliding counter has one
	mostPending  = 256                   // bookings
	mostEntries  = 512                   // more of the past share the newest, and come back with that
	mostUsed     = 9 * MaxPermits        // in a window, though more is charged
)

// readFirst is how much of the string of a log a full take reads at first: what is behind it only
// if it is needed.
var readFirst = int64(48 + columns.Log.Bytes() + 8*columns.Entry.Bytes())

// dates says how an algorithm dates what it grants: see log.lua.
type dates struct {
	fixed bool  // at the beginning of its window
	cells int64 // of a window, if grants share entries
	// A share and a number of entries up to which they do not.
	exactShare int64
	exactLive  int
}

// logs are how algorithms date that keep a log.
var logs = map[Algorithm]dates{
	AlgorithmSlidingLog:     {cells: logCells, exactShare: exactShare, exactLive: exactLive},
	AlgorithmSlidingCounter: {cells: counterCells},
	AlgorithmFixedWindow:    {fixed: true, cells: 1},
}

// names are what log.lua calls them.
func (d dates) names() map[string]string {
	return map[string]string{
		"FIXED": strconv.FormatBool(d.fixed), "CELLS": number(d.cells),
		"EXACT_SHARE": number(d.exactShare), "EXACT_LIVE": number(int64(d.exactLive)),
	}
}
