package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

const topHelp = `What show prints, again and again, until interrupted. Nothing is consumed and
nothing is written.

With --keys it is the keys that a process refused most in the last minute or
two: serve --denied, or a program with httplimit.RefusedKeys at
GET /v1/denied. Redis is not asked.

Example:

  shardlimit top mails --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit top --keys --serve https://10.0.0.7:8080 \
    --token-file /etc/shardlimit/tokens`

func topCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "top",
		Usage:       "watch a limit live",
		ArgsUsage:   "NAME",
		Description: topHelp,
		Flags: append([]cli.Flag{
			keyFlag(), participantFlag(),
			&cli.BoolFlag{Name: "keys", Usage: "show which keys are refused most, of the family NAME or of all"},
			&cli.StringFlag{Name: "serve", Value: "http://127.0.0.1:8080",
				Usage: "with --keys: `URL` of the process that refuses them"},
			&cli.StringFlag{Name: "token-file",
				Usage: "with --keys: the first token in this `FILE` lets in (also SHARDLIMIT_TOKEN)"},
			&cli.DurationFlag{Name: "every", Value: time.Second, Usage: "how often it looks, `TIME`"},
			&cli.IntFlag{Name: "count", Usage: "end after so many looks, `NUMBER`; 0: never"},
			&cli.BoolFlag{Name: "json",
				Usage: "print one JSON object for each look, in a line; times are in microseconds"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return top(ctx, cmd, con) },
	}
}

func top(ctx context.Context, cmd *cli.Command, con console) error {
	every, count := cmd.Duration("every"), cmd.Int("count")
	switch {
	case every < 10*time.Millisecond:
		return usagef("--every is %s; it must be at least 10ms", every)
	case count < 0:
		return usagef("--count is %d; it must not be negative", count)
	}
	keys := cmd.Bool("keys")
	for flag, with := range map[string]bool{"serve": true, "token-file": true, "key": false, "participant": false} {
		if cmd.IsSet(flag) && with != keys {
			return usagef("--%s %s --keys", flag, map[bool]string{true: "needs", false: "does nothing with"}[with])
		}
	}
	if keys {
		return topKeys(ctx, cmd, con)
	}
	name, err := nameArgument(cmd)
	if err != nil {
		return err
	}
	client, err := connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	interrupts := listen(ctx)
	defer interrupts.close()
	limiter, err := openFor(interrupts.first, cmd, client, name)
	if err != nil {
		return err
	}
	return watch(interrupts.first, cmd, con, func() seen {
		return lookAt(interrupts.first, limiter, cmd.StringSlice("participant"))
	})
}

// watch shows look after look.
func watch(ctx context.Context, cmd *cli.Command, con console, look func() seen) error {
	show, end := viewOf(con.out, cmd.Bool("json"))
	defer end()
	tick := time.NewTicker(cmd.Duration("every"))
	defer tick.Stop()
	for looks := 1; ; looks++ {
		saw := look()
		if ctx.Err() != nil { // it was cut short, and says nothing
			return nil
		}
		if err := show(saw); errors.Is(err, syscall.EPIPE) {
			return nil // the reader has enough
		} else if err != nil {
			return err
		}
		if looks == cmd.Int("count") {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func openFor(ctx context.Context, cmd *cli.Command, client *shardlimit.Client,
	name string) (*shardlimit.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return open(ctx, cmd, client, name)
}

// seen is what a look comes to.
type seen interface {
	text(width int) string // for so many columns
	json() any
}

// look is what was seen of a limit at once. What went wrong is part of it: the next may succeed.
type look struct {
	name  string
	state shardlimit.State
	who   crowd
	err   error
}

func lookAt(ctx context.Context, l *shardlimit.Limiter, names []string) look {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	k := look{name: l.Name()}
	if k.state, k.err = l.Peek(ctx); k.seen() {
		k.who = readCrowd(ctx, l, names)
	}
	return k
}

func (k look) seen() bool { return len(k.state.Shards) > 0 || k.err == nil }

// text is for so many columns.
func (k look) text(width int) string {
	var b strings.Builder
	if !k.seen() {
		fmt.Fprintf(&b, "%s  %s\n", draw.Name(k.name), oneLine(k.err))
		return b.String()
	}
	_ = printStateIn(&b, width, k.name, k.state, k.who) // a Builder never fails
	return b.String()
}

func (k look) json() any {
	if !k.seen() {
		return missedJSON{k.name, oneLine(k.err)}
	}
	return stateOf(k.name, k.state, k.who)
}

// missedJSON is a look that nothing was seen in.
type missedJSON struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// viewOf returns what shows looks, and what ends it.
func viewOf(out *os.File, asJSON bool) (show func(seen) error, end func()) {
	if asJSON {
		encoder := json.NewEncoder(out)
		return func(k seen) error { return encoder.Encode(k.json()) }, func() {}
	}
	p := newPage(out)
	return p.show, p.close
}

// page shows one text after another: on a terminal in the same place, elsewhere
// with an empty line between them.
type page struct {
	out   *os.File
	live  bool
	drawn int // rows of the last text; elsewhere texts so far
}

// usualWidth is how many columns there are where nobody says.
const usualWidth = 80

func newPage(out *os.File) *page { return &page{out: out, live: term.IsTerminal(int(out.Fd()))} }

func (p *page) show(k seen) error {
	if !p.live {
		text := k.text(usualWidth)
		if p.drawn > 0 {
			text = "\n" + text
		}
		p.drawn++
		_, err := p.out.WriteString(text)
		return err
	}
	width, height, err := term.GetSize(int(p.out.Fd()))
	if err != nil || width < 2 || height < 2 {
		width, height = usualWidth, 24
	}
	_, err = p.out.WriteString(p.redraw(k.text(width-1), width-1, height-1))
	return err
}

// redraw is the text as a terminal of that size needs it in place of the last one.
func (p *page) redraw(text string, width, height int) string {
	var rows []string
	for row := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		rows = append(rows, draw.Fold(row, width)...)
	}
	rows = rows[:min(len(rows), height)]
	var b strings.Builder
	if p.drawn == 0 {
		b.WriteString("\x1b[?25l") // no cursor
	} else {
		fmt.Fprintf(&b, "\x1b[%dA\r", p.drawn)
	}
	for _, row := range rows {
		b.WriteString(row + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	p.drawn = len(rows)
	return b.String()
}

// close leaves the last text where it is.
func (p *page) close() {
	if p.live {
		_, _ = p.out.WriteString("\x1b[?25h")
	}
}
