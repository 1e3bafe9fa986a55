package main

import (
	"context"
	"fmt"
	"math"
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
func report(ctx context.Context, con console, limiter *shardlimit.Limiter, e *pace.Engine) {
	begin, end := "", "\n"
	if term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd())) {
		begin, end = "\r\x1b[K", ""
	}
	defer func() { _, _ = fmt.Fprint(con.err, begin) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, at := e.Lines.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			lines := e.Lines.Load()
			perSecond := float64(lines-before) / now.Sub(at).Seconds()
			line := progressLine(limiter, perSecond, lines, e.Waiting.Load())
			_, _ = fmt.Fprint(con.err, begin, draw.Clip(line, columns(con.err)), end)
			before, at = lines, now
		}
	}
}

// columns are those that a line may have.
func columns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 2 {
		return math.MaxInt
	}
	return width - 1
}

func progressLine(limiter *shardlimit.Limiter, perSecond float64, lines, waiting int64) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", draw.Name(limiter.Name()),
		draw.Count(int64(perSecond+0.5)), rateOf(limiter.Limit()), draw.Count(lines), draw.Count(waiting))
	if waiting == 0 {
		line += ", waiting for input"
	}
	return line
}
