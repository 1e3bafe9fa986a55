package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"golang.org/x/term"
)

// progress tells once a second how far a pace has come.
type progress struct {
	name    string
	to      *os.File
	rewrite bool // one line, written over and over
	written bool // there is such a line
	status  func() pace.Status
	limit   func() rate.Rate
}

// newProgress writes to standard error. The line is rewritten on a terminal,
// unless the released lines go to a terminal too and would mix with it.
func newProgress(name string, con console, status func() pace.Status, limit func() rate.Rate) *progress {
	rewrite := term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd()))
	return &progress{name: name, to: con.err, rewrite: rewrite, status: status, limit: limit}
}

// run reports until ctx is done.
func (p *progress) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, at := p.status(), time.Now()
	for {
		select {
		case <-ctx.Done():
			p.clear()
			return
		case now := <-tick.C:
			s := p.status()
			perSecond := float64(s.Lines-before.Lines) / now.Sub(at).Seconds()
			p.print(progressLine(p.name, s, perSecond, p.limit()))
			before, at = s, now
		}
	}
}

func (p *progress) print(line string) {
	if !p.rewrite {
		_, _ = fmt.Fprintln(p.to, line)
		return
	}
	width, _, err := term.GetSize(int(p.to.Fd()))
	if err != nil || width < 2 {
		width = 80
	}
	_, _ = fmt.Fprintf(p.to, "\r%s\x1b[K", draw.Clip(line, width-1))
	p.written = true
}

// clear removes the rewritten line.
func (p *progress) clear() {
	if p.written {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// progressLine describes a status in one line.
func progressLine(name string, s pace.Status, perSecond float64, limit rate.Rate) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", name,
		draw.Count(int64(perSecond+0.5)), limit, draw.Count(s.Lines), draw.Count(s.Waiting))
	switch {
	case s.Err != nil:
		reason := strings.ReplaceAll(s.Err.Error(), "\n", "; ")
		line += ", Redis does not answer, trying again: " + draw.Clip(reason, 200)
	case s.Phase == pace.WaitingForOutput:
		line += ", waiting for the reader of the output"
	case s.Phase == pace.WaitingForInput && s.Waiting == 0:
		line += ", waiting for input"
	}
	return line
}
