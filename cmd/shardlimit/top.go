package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

func topCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch a limit live",
		ArgsUsage: "NAME",
		Description: "What show prints, again and again, until interrupted. Nothing is consumed and nothing is " +
			"written.\n\nExample:\n\n" +
			"  shardlimit top mails --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags: append([]cli.Flag{
			keyFlag(), participantFlag(),
			&cli.DurationFlag{Name: "every", Value: time.Second, Usage: "how often it looks, `TIME`"},
			&cli.IntFlag{Name: "count", Usage: "end after so many looks, `NUMBER`; 0: never"},
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
	view := newPage(con.out)
	defer view.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for look := 1; ; look++ {
		if err := view.show(lookAt(interrupts.first, limiter, cmd.StringSlice("participant"))); err != nil {
			return err
		}
		if look == count {
			return nil
		}
		select {
		case <-tick.C:
		case <-interrupts.first.Done():
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

// lookAt is what show prints. What goes wrong is part of it: the next look may succeed.
func lookAt(ctx context.Context, l *shardlimit.Limiter, names []string) string {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	state, err := l.Peek(ctx)
	var b strings.Builder
	if len(state.Shards) > 0 || err == nil {
		_ = printState(&b, l.Name(), state, readCrowd(ctx, l, names)) // a Builder never fails
	}
	if err != nil && b.Len() == 0 {
		fmt.Fprintf(&b, "%s  %v\n", l.Name(), err)
	}
	return b.String()
}

// page shows one text after another: on a terminal in the same place, elsewhere
// with an empty line between them.
type page struct {
	out   *os.File
	live  bool
	drawn int // rows of the last text; elsewhere texts so far
}

func newPage(out *os.File) *page { return &page{out: out, live: term.IsTerminal(int(out.Fd()))} }

func (p *page) show(text string) error {
	if !p.live {
		if p.drawn > 0 {
			text = "\n" + text
		}
		p.drawn++
		_, err := p.out.WriteString(text)
		return err
	}
	width, height, err := term.GetSize(int(p.out.Fd()))
	if err != nil || width < 2 || height < 2 {
		width, height = 80, 24
	}
	_, err = p.out.WriteString(p.redraw(text, width-1, height-1))
	return err
}

// redraw is the text as a terminal of that size needs it in place of the last one.
func (p *page) redraw(text string, width, height int) string {
	rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	rows = rows[:min(len(rows), height)]
	var b strings.Builder
	if p.drawn == 0 {
		b.WriteString("\x1b[?25l") // no cursor
	} else {
		fmt.Fprintf(&b, "\x1b[%dA\r", p.drawn)
	}
	for _, row := range rows {
		if runes := []rune(row); len(runes) > width {
			row = string(runes[:width])
		}
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
