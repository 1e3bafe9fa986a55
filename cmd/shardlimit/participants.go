package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

// maxRows is how many participants are shown one by one.
const maxRows = 20

func participantFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "participant",
		Usage: "show the participant of this `NAME` by its name; may be repeated (Redis knows only a hash of it)"}
}

// crowd is who contends for a limit: the greatest users, and how many more there are.
type crowd struct {
	Rows []rowJSON `json:"participants"`
	More int       `json:"more_participants,omitempty"`
	// Error says that shards are missing from it.
	Error string `json:"participants_error,omitempty"`
}

// rowJSON is a participant. The names of its fields are a promise to scripts.
type rowJSON struct {
	ID          string  `json:"id"`             // empty for all newcomers, of whom no account is kept
	Name        string  `json:"name,omitempty"` // if it was given by flag
	Weight      float64 `json:"weight"`
	Used        int64   `json:"used"`
	Demand      float64 `json:"demand"`
	Entitlement float64 `json:"entitlement"`
}

// readCrowd asks who contends for the limit. What goes wrong is part of the answer.
func readCrowd(ctx context.Context, l *shardlimit.Limiter, names []string) crowd {
	all, err := l.Participants(ctx)
	c := crowdOf(all, names)
	if err != nil {
		c.Error = oneLine(err)
	}
	return c
}

// crowdOf takes participants, the greatest user first.
func crowdOf(all []shardlimit.ParticipantState, names []string) crowd {
	known := make(map[string]string, len(names))
	for _, name := range names {
		known[shardlimit.ParticipantID(name)] = name
	}
	c := crowd{Rows: []rowJSON{}, More: max(0, len(all)-maxRows)}
	for _, p := range all[:min(len(all), maxRows)] {
		c.Rows = append(c.Rows, rowJSON{p.ID, known[p.ID], p.Weight, p.Used, p.Demand, p.Entitlement})
	}
	return c
}

// print writes a table.
func (c crowd) print(b *strings.Builder) {
	switch {
	case c.Error != "":
		fmt.Fprintf(b, "\nnot every shard told who contends: %s\n", c.Error)
	case len(c.Rows) == 0:
		b.WriteString("\nparticipants do not contend\n")
	}
	if len(c.Rows) == 0 {
		return
	}
	width := len("0123456789abcdef")
	for _, r := range c.Rows {
		width = max(width, len([]rune(r.label())))
	}
	fmt.Fprintf(b, "\n%-*s  %8s  %10s  %10s  %10s\n", width, "participant", "weight", "used", "wanted", "entitled")
	for _, r := range c.Rows {
		fmt.Fprintf(b, "%-*s  %8g  %10s  %10s  %10s\n", width, r.label(), r.Weight, draw.Count(r.Used),
			perWindow(r.Demand), perWindow(r.Entitlement))
	}
	if c.More > 0 {
		fmt.Fprintf(b, "and %s more\n", draw.Count(int64(c.More)))
	}
	if slices.ContainsFunc(c.Rows, func(r rowJSON) bool { return r.ID != "" && r.Name == "" }) {
		b.WriteString("\nRedis knows only hashes of names; --participant NAME shows that one by its name\n")
	}
}

// label is a participant's name, if that is known and can be shown in a row.
func (r rowJSON) label() string {
	if r.Name == "" {
		return cmp.Or(r.ID, "newcomers")
	}
	return draw.Name(r.Name)
}

// perWindow is permits per window, rounded; none is a dash: nobody is held back.
func perWindow(permits float64) string {
	if permits == 0 {
		return "-"
	}
	return draw.Count(int64(permits + 0.5))
}
