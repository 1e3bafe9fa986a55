package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// PlacesKey returns the key of a node's pointer, under the same rules as [ShardKeys].
func PlacesKey(prefix, tag string) string { return prefix + "{" + tag + "}:p" }

// PlacesRequest reads the pointer of a node or, with a Text, writes it.
type PlacesRequest struct {
	Text   string        // "": only read
	Expect string        // written if this is the text now; "": if there is none
	Keep   time.Duration // how long the pointer lives after this, from 1ms; 0: it does not end by itself
}

// PlacesReply is how the pointer stands after the call.
type PlacesReply struct {
	Text string // "": there is none
	// Whole tells that it was written in this run of the server, which so has forgotten nothing
	// since.
	Whole  bool
	Uptime time.Duration // of the server, in whole seconds; a day of one that does not tell
	Now    clock.ServerTime
	Run    string // of the server; "none" of one that does not tell
}

// Places reads or writes the pointer of a node: a short text, with the run of the server that it
// was written in. See [VoteRequest].
func (e *Endpoint) Places(ctx context.Context, key string, r PlacesRequest) (PlacesReply, error) {
	args := [3]string{r.Text, r.Expect, number(milliseconds(r.Keep))}
	return ask(ctx, e, &programs[placesProgram], []string{key}, args[:], parsePlaces)
}

func parsePlaces(p *program, reply []rueidis.RedisMessage) (PlacesReply, error) {
	var n [4]int64
	var texts [2]string
	if err := counts(p, reply, n[:], texts[:]); err != nil {
		return PlacesReply{}, err
	}
	if n[1] > 1 || n[2] > maxTime/second {
		return PlacesReply{}, malformed(p, "out of range")
	}
	return PlacesReply{Text: texts[0], Whole: n[1] == 1, Uptime: time.Duration(n[2]) * time.Second,
		Now: clock.ServerTime(n[3]), Run: texts[1]}, nil
}
