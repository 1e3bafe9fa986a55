package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	json    bool // one object a line
	rewrite bool // one line, written over and over
	written bool // there is such a line
	status  func() pace.Status
	limit   func() rate.Rate
	outage  outage
}

// newProgress writes to standard error. The line is rewritten on a terminal,
// unless the released lines go to a terminal too and would mix with it.
func newProgress(j *paceJob, con console, status func() pace.Status, limit func() rate.Rate) *progress {
	rewrite := !j.json && term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd()))
	return &progress{name: j.name, to: con.err, json: j.json, rewrite: rewrite, status: status, limit: limit}
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
			p.report(s, float64(s.Lines-before.Lines)/now.Sub(at).Seconds(), now)
			before, at = s, now
		}
	}
}

// report tells about a status. What happened to Redis stands in lines of its own.
func (p *progress) report(s pace.Status, perSecond float64, now time.Time) {
	news, counter := p.outage.next(s.Err, now, p.rewrite)
	if p.json {
		_ = json.NewEncoder(p.to).Encode(progressOf(p.name, s, perSecond, p.limit(), p.outage.lasts(now)))
		return
	}
	if news != "" {
		p.clear()
		_, _ = fmt.Fprintf(p.to, "%s: %s\n", draw.Name(p.name), news)
	}
	switch {
	case s.Err == nil:
		p.print(progressLine(p.name, s, perSecond, p.limit()))
	case counter != "":
		p.print(fmt.Sprintf("%s: %s, released %s, waiting %s", draw.Name(p.name), counter, draw.Count(s.Lines),
			draw.Count(s.Waiting)))
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
		p.written = false
	}
}

// progressLine describes a status in one line.
func progressLine(name string, s pace.Status, perSecond float64, limit rate.Rate) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", draw.Name(name),
		draw.Count(int64(perSecond+0.5)), limit, draw.Count(s.Lines), draw.Count(s.Waiting))
	switch {
	case s.Phase == pace.WaitingForOutput:
		line += ", waiting for the reader of the output"
	case s.Phase == pace.WaitingForInput && s.Waiting == 0:
		line += ", waiting for input"
	}
	return line
}

// progressJSON is a line of pace --json. The names of its fields are a promise to scripts.
type progressJSON struct {
	Name      string `json:"name"`
	State     string `json:"state"` // waiting_for_permits, _input, _output, or outage
	Released  int64  `json:"released"`
	Waiting   int64  `json:"waiting"`
	PerSecond int64  `json:"released_per_second"`
	Permits   int64  `json:"permits"`
	PerUS     int64  `json:"per_us"`
	OutageUS  int64  `json:"outage_us"`
	Error     string `json:"error,omitempty"`
}

func progressOf(name string, s pace.Status, perSecond float64, limit rate.Rate, outage time.Duration) progressJSON {
	j := progressJSON{Name: name, State: "waiting_for_permits", Released: s.Lines, Waiting: s.Waiting,
		PerSecond: int64(perSecond + 0.5), Permits: limit.Permits, PerUS: limit.Per.Microseconds(),
		OutageUS: outage.Microseconds()}
	switch {
	case s.Err != nil:
		j.State, j.Error = "outage", oneLine(s.Err)
	case s.Phase == pace.WaitingForOutput:
		j.State = "waiting_for_output"
	case s.Phase == pace.WaitingForInput:
		j.State = "waiting_for_input"
	}
	return j
}
