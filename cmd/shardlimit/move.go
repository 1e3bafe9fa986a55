package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

const (
	moveLook = 100 * time.Millisecond // how often a move is looked at
	moveTell = time.Second            // how often it is told about
)

// errInterruptedMove is the end of following a move, not of the move.
var errInterruptedMove = errors.New("interrupted; what was begun goes on while the limits are used, and the same " +
	"command follows it again")

// move is limits whose capacity is on its way to where it should be.
type move struct {
	limits []*shardlimit.Limiter
	away   string // the node that nothing may be left on; "": none
	con    console
}

// follow returns when everything is where it should be, and tells how far it is until then.
func (m *move) follow(ctx context.Context) error {
	left, told, said := m.limits, time.Now(), ""
	look := time.NewTicker(moveLook)
	defer look.Stop()
	for {
		var line string
		var err error
		if left, line, err = m.look(ctx, left); err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if time.Since(told) >= moveTell && line != said {
			_, _ = fmt.Fprintf(m.con.err, "shardlimit: %s\n", line)
			told, said = time.Now(), line
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return errInterruptedMove
		}
	}
}

// look returns the limits that have not arrived, and how far the first of them is.
func (m *move) look(ctx context.Context, limits []*shardlimit.Limiter) (left []*shardlimit.Limiter, line string,
	err error) {
	for _, l := range limits {
		within, cancel := context.WithTimeout(ctx, adminTimeout)
		state, err := l.Peek(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, "", errInterruptedMove
		case errors.Is(err, shardlimit.ErrNotFound): // deleted meanwhile
			continue
		case err == nil && m.arrived(&state):
			continue
		}
		left = append(left, l)
		if line == "" {
			line = fmt.Sprintf("%s: %s", draw.Name(l.Name()), m.progress(&state))
			if err != nil {
				line = fmt.Sprintf("%s: %s", draw.Name(l.Name()), oneLine(err))
			}
		}
	}
	if len(m.limits) > 1 {
		line = fmt.Sprintf("%d of %s have moved; %s", len(m.limits)-len(left),
			draw.Plural(int64(len(m.limits)), "limit"), line)
	}
	return left, line, nil
}

func (m *move) arrived(s *shardlimit.State) bool {
	for _, sh := range s.Shards {
		if sh.Node == m.away {
			return false
		}
	}
	return s.Settled
}

// progress is what is still to come.
func (m *move) progress(s *shardlimit.State) string {
	var there, missing int64
	for _, sh := range s.Shards {
		if sh.Node == m.away {
			there += sh.Share
		}
		missing += max(0, sh.Target-sh.Share)
	}
	if m.away != "" {
		return fmt.Sprintf("%s of %s are still on %s", draw.Count(there),
			draw.Plural(s.Limit.Permits, "permit"), m.away)
	}
	return fmt.Sprintf("%s of %s are still on their way", draw.Count(missing),
		draw.Plural(s.Limit.Permits, "permit"))
}
