package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/urfave/cli/v3"
)

func showCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a limit: its shards, what is in use, who contends for it; or list all",
		ArgsUsage: "[NAME]",
		Description: "Nothing is consumed and nothing is written. If a shard does not answer, or nothing " +
			"of a key is in use, the exit code is 1.\n\nWithout NAME it lists the limits and families of the " +
			"prefix. For that it looks at the keys of every server with SCAN, which slows nobody down, but takes " +
			"long where there are many keys.\n\nExamples:\n\n" +
			"  shardlimit show --redis 10.0.0.1:6379,10.0.0.2:6379\n" +
			"  shardlimit show mails --participant ann --redis 10.0.0.1:6379",
		Flags: append([]cli.Flag{
			familyFlag(), keyFlag(), participantFlag(), maxKeysFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON: an object, or one a line for each that is listed; times " +
				"are in microseconds"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			named := cmd.Args().Len() > 0 || cmd.Bool("family") || cmd.IsSet("key")
			switch {
			case !named && cmd.IsSet("participant"):
				return usagef("--participant needs the NAME of a limit")
			case !named:
				return list(ctx, cmd, con)
			case cmd.IsSet("max-keys"):
				return errNothingToSearch
			}
			if cmd.Bool("family") {
				return withClient(ctx, cmd, func(ctx context.Context, client *shardlimit.Client, name string) error {
					family, err := openFamily(ctx, cmd, client, name)
					if err != nil {
						return err
					}
					if cmd.Bool("json") {
						return showFamilyJSON(con.out, family)
					}
					return showFamily(con.out, family)
				})
			}
			return withLimit(ctx, cmd, func(ctx context.Context, l *shardlimit.Limiter) error {
				state, err := l.Peek(ctx)
				if len(state.Shards) == 0 && err != nil {
					return err
				}
				if nothing := untouched(cmd, state); nothing != nil {
					return errors.Join(err, nothing)
				}
				who := readCrowd(ctx, l, cmd.StringSlice("participant"))
				if cmd.Bool("json") {
					err = errors.Join(err, printJSON(con.out, l.Name(), state, who))
				} else {
					err = errors.Join(err, printState(con.out, l.Name(), state, who))
				}
				if away, _ := unseen(state); away > 0 && (err == nil || errors.Is(err, shardlimit.ErrUnavailable)) {
					return errTold
				}
				return err
			})
		},
	}
}

// stateJSON is what show --json prints. The names of its fields are a promise
// to scripts.
type stateJSON struct {
	Name         string      `json:"name"`
	Permits      int64       `json:"permits"`
	PerUS        int64       `json:"per_us"`
	Algorithm    string      `json:"algorithm"`
	Scope        string      `json:"scope"`
	Burst        int64       `json:"burst"`
	LeaseUS      int64       `json:"lease_us"`
	Revision     int64       `json:"revision"`
	Mode         string      `json:"mode"`
	Epoch        int64       `json:"epoch"`
	Settled      bool        `json:"settled"`
	Used         int64       `json:"used"`
	Remaining    int64       `json:"remaining"`
	RetryAfterUS int64       `json:"retry_after_us"`
	ResetAfterUS int64       `json:"reset_after_us"`
	Takeover     bool        `json:"takeover"`
	Lost         []string    `json:"lost,omitempty"`
	Records      []string    `json:"records,omitempty"`
	Shards       []shardJSON `json:"shards"`
	crowd
}

type shardJSON struct {
	Tag          string `json:"tag"`
	Slot         int    `json:"slot"`
	Node         string `json:"node"`
	Algorithm    string `json:"algorithm"`
	Target       int64  `json:"target"`
	Share        int64  `json:"share"`
	Used         int64  `json:"used"`
	Free         int64  `json:"free"`
	QuarantineUS int64  `json:"quarantine_us"`
	Error        string `json:"error,omitempty"`
}

func printJSON(w io.Writer, name string, s shardlimit.State, who crowd) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(stateOf(name, s, who))
}

func stateOf(name string, s shardlimit.State, who crowd) stateJSON {
	out := stateJSON{
		Name: name, Permits: s.Limit.Permits, PerUS: s.Limit.Per.Microseconds(), Algorithm: s.Limit.Algorithm.String(),
		Scope: s.Limit.Scope.String(), Burst: s.Limit.Burst, LeaseUS: s.Limit.Lease.Microseconds(),
		Revision: s.Limit.Revision, Mode: s.Limit.Mode.String(),
		Epoch: s.Epoch, Settled: s.Settled, Used: s.Used, Remaining: s.Remaining,
		RetryAfterUS: s.RetryAfter.Microseconds(), ResetAfterUS: s.ResetAfter.Microseconds(),
		Takeover: s.Takeover, Lost: s.Lost, Records: s.Records, Shards: []shardJSON{}, crowd: who,
	}
	for _, sh := range s.Shards {
		j := shardJSON{Tag: sh.Tag, Slot: sh.Slot, Node: sh.Node, Algorithm: sh.Algorithm.String(), Target: sh.Target,
			Share: sh.Share, Used: sh.Used, Free: sh.Free, QuarantineUS: sh.Quarantine.Microseconds()}
		if sh.Err != nil {
			j.Error = oneLine(sh.Err)
		}
		out.Shards = append(out.Shards, j)
	}
	return out
}

func printState(w io.Writer, name string, s shardlimit.State, who crowd) error {
	return printStateIn(w, usualWidth, name, s, who)
}

// printStateIn is for so many columns. What is beyond the usual ones makes bars longer.
func printStateIn(w io.Writer, width int, name string, s shardlimit.State, who crowd) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s%s\n", draw.Name(name), describe(s.Limit), arranged(s))
	if s.Limit.Scope == shardlimit.PerParticipant {
		b.WriteString("every process counts for itself; nothing of that is in Redis\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	printUse(&b, s)
	printShards(&b, s, min(usualBar+max(0, width-usualWidth), widestBar))
	if _, causes := unseen(s); len(causes) > 0 {
		b.WriteString("\n")
		for _, cause := range causes {
			b.WriteString(draw.Clip(cause, 300) + "\n")
		}
		who.told = true
	}
	who.print(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// printUse tells how much of the whole limit is in use.
func printUse(b *strings.Builder, s shardlimit.State) {
	known := ""
	if slices.ContainsFunc(s.Shards, func(sh shardlimit.ShardState) bool { return sh.Err != nil }) {
		known = " as far as shards answer"
	}
	fmt.Fprintf(b, "in use or reserved %s of %s%s, free %s", draw.Count(s.Used), draw.Count(s.Limit.Permits), known,
		draw.Count(s.Remaining))
	if s.RetryAfter > 0 {
		fmt.Fprintf(b, ", the next permit in %s", draw.About(s.RetryAfter))
	}
	if s.ResetAfter > 0 {
		fmt.Fprintf(b, ", all free in %s", draw.About(s.ResetAfter))
	}
	if len(s.Lost) > 0 {
		fmt.Fprintf(b, "\nlost: %s; what the limit had there %s", strings.Join(s.Lost, ", "), takenOver(s))
	}
	if len(s.Records) > 0 {
		fmt.Fprintf(b, "\nrecords are on %s", strings.Join(s.Records, ", "))
	}
	b.WriteString("\n")
}

// Columns of the bar that tells how much of a shard is in use.
const (
	usualBar  = 10
	widestBar = 60
)

// printShards is a table with a row for each shard.
func printShards(b *strings.Builder, s shardlimit.State, columns int) {
	nodeWidth := len("node")
	for _, sh := range s.Shards {
		nodeWidth = max(nodeWidth, utf8.RuneCountInString(sh.Node))
	}
	fmt.Fprintf(b, "\n%-5s  %5s  %-*s  %10s  %10s  %10s\n", "shard", "slot", nodeWidth, "node", "share", "used", "free")
	for _, sh := range s.Shards {
		fmt.Fprintf(b, "%-5s  %5d  %-*s  ", sh.Tag, sh.Slot, nodeWidth, sh.Node)
		if sh.Err != nil {
			b.WriteString("does not answer\n")
			continue
		}
		bar := strings.TrimRight(draw.Bar(float64(sh.Used)/float64(max(sh.Share, 1)), columns), " ")
		fmt.Fprintf(b, "%10s  %10s  %10s", draw.Count(sh.Share), draw.Count(sh.Used), draw.Count(sh.Free))
		if more := bar + remark(sh, s.Limit.Algorithm); more != "" {
			b.WriteString("  " + strings.TrimPrefix(more, " "))
		}
		b.WriteString("\n")
	}
}

// arranged tells when the limit was set or moved last, by the clock of a node: the number of a
// layout is that time. Numbers that are none are those of tests.
func arranged(s shardlimit.State) string {
	if !s.Settled {
		return " (capacity is still moving)"
	}
	if at := time.UnixMicro(s.Epoch); at.Year() >= 2020 {
		return at.UTC().Format(", since 2006-01-02 15:04 UTC")
	}
	return ""
}

func takenOver(s shardlimit.State) string {
	if s.Settled {
		return "is served by the others"
	}
	return "goes to the others once nothing of it can be in use"
}

// remark says what is unusual about a shard of a limit that is counted like that.
func remark(s shardlimit.ShardState, algorithm shardlimit.Algorithm) string {
	if s.Algorithm != algorithm {
		return fmt.Sprintf(" by %s%s", spelling.Of(s.Algorithm), remark(s, s.Algorithm))
	}
	switch {
	case s.Quarantine > 0:
		return fmt.Sprintf(" shut for %s: the node lost its memory", draw.About(s.Quarantine))
	case s.Used > s.Share && algorithm != shardlimit.TokenBucket && algorithm != shardlimit.LeakyBucket:
		return fmt.Sprintf(" owes %s: reserved, or charged by Settle", draw.Count(s.Used-s.Share))
	case s.Share != s.Target:
		return fmt.Sprintf(" on the way to %s", draw.Count(s.Target))
	}
	return ""
}
