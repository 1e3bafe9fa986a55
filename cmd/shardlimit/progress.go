package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"golang.org/x/term"
)

// report tells once a second on standard error how far a pace has come, until ctx is done. On a
// terminal it is one line that is written over and over, unless the released lines go to a terminal
// too and would mix with it.
func report(ctx context.Context, con console, limiter *shardlimit.Limiter, status func() pace.Status) {
	begin, end := "", "\n"
	if term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd())) {
		begin, end = "\r\x1b[K", ""
	}
	defer func() { _, _ = fmt.Fprint(con.err, begin) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, at := status(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s := status()
			perSecond := float64(s.Lines-before.Lines) / now.Sub(at).Seconds()
			line := progressLine(limiter.Name(), s, perSecond, limiter.Limit())
			_, _ = fmt.Fprint(con.err, begin, draw.Clip(line, columns(con.err)), end)
			before, at = s, now
		}
	}
}

// columns are those that a line may have.
func columns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 2 {
		return widestLine
	}
	return width - 1
}

// widestLine is for what is no terminal.
const widestLine = 300

// progressLine describes a status in one line.
func progressLine(name string, s pace.Status, perSecond float64, limit shardlimit.Limit) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", draw.Name(name),
		draw.Count(int64(perSecond+0.5)), rateOf(limit), draw.Count(s.Lines), draw.Count(s.Waiting))
	switch {
	case s.Err != nil:
		line += ", " + oneLine(s.Err)
	case s.Waiting == 0:
		line += ", waiting for input"
	}
	return line
}
