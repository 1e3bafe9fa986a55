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

// progress tells once a second how far a pace has come.
type progress struct {
	to      *os.File
	rewrite bool // one line, written over and over
	limiter *shardlimit.Limiter
	status  func() pace.Status
	cause   string // why Redis does not answer, as it was told last; empty while it does
}

// newProgress writes to standard error. The line is rewritten on a terminal,
// unless the released lines go to a terminal too and would mix with it.
func newProgress(con console, limiter *shardlimit.Limiter, status func() pace.Status) *progress {
	rewrite := term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd()))
	return &progress{to: con.err, rewrite: rewrite, limiter: limiter, status: status}
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
			if news := p.news(s.Err); news != "" {
				p.clear()
				_, _ = fmt.Fprintf(p.to, "%s: %s\n", draw.Name(p.limiter.Name()), news)
			}
			p.print(progressLine(p.limiter.Name(), s, perSecond, p.limiter.Limit()))
			before, at = s, now
		}
	}
}

// news is what to tell, once, of why Redis does not answer, or that it does again; empty if it was
// told.
func (p *progress) news(err error) string {
	cause := ""
	if err != nil {
		cause = draw.Clip(oneLine(err), 300)
	}
	if cause == p.cause {
		return ""
	}
	p.cause = cause
	if cause == "" {
		return "Redis is back"
	}
	return cause
}

// clear removes the line that is rewritten.
func (p *progress) clear() {
	if p.rewrite {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

func (p *progress) print(line string) {
	if !p.rewrite {
		_, _ = fmt.Fprintln(p.to, line)
		return
	}
	width, _, err := term.GetSize(int(p.to.Fd()))
	if err != nil || width < 2 {
		width = draw.UsualWidth
	}
	_, _ = fmt.Fprintf(p.to, "\r%s\x1b[K", draw.Clip(line, width-1))
}

// progressLine describes a status in one line.
func progressLine(name string, s pace.Status, perSecond float64, limit shardlimit.Limit) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", draw.Name(name),
		draw.Count(int64(perSecond+0.5)), rateOf(limit), draw.Count(s.Lines), draw.Count(s.Waiting))
	switch {
	case s.Err != nil:
		line += ", waiting for Redis"
	case s.Phase == pace.WaitingForOutput:
		line += ", waiting for the reader of the output"
	case s.Phase == pace.WaitingForInput && s.Waiting == 0:
		line += ", waiting for input"
	}
	return line
}
