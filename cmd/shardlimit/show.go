package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/urfave/cli/v3"
)

func showCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a limit, where its shards are, what is in use and who contends for it",
		ArgsUsage: "NAME",
		Description: "Nothing is consumed and nothing is written.\n\nExample:\n\n" +
			"  shardlimit show mails --participant ann --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags: append([]cli.Flag{
			familyFlag(), keyFlag(), participantFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object; times are in microseconds"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Bool("family") {
				return withClient(ctx, cmd, func(ctx context.Context, client *shardlimit.Client, name string) error {
					family, err := openFamily(ctx, client, name)
					if err != nil {
						return err
					}
					return showFamily(con.out, family)
				})
			}
			return withLimit(ctx, cmd, func(ctx context.Context, l *shardlimit.Limiter) error {
				state, err := l.Peek(ctx)
				if len(state.Shards) == 0 && err != nil {
					return err
				}
				who := readCrowd(ctx, l, cmd.StringSlice("participant"))
				if cmd.Bool("json") {
					return errors.Join(err, printJSON(con.out, l.Name(), state, who))
				}
				return errors.Join(err, printState(con.out, l.Name(), state, who))
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
	Epoch        int64       `json:"epoch"`
	Settled      bool        `json:"settled"`
	Used         int64       `json:"used"`
	Remaining    int64       `json:"remaining"`
	RetryAfterUS int64       `json:"retry_after_us"`
	ResetAfterUS int64       `json:"reset_after_us"`
	Failover     bool        `json:"failover"`
	Lost         []string    `json:"lost,omitempty"`
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
	out := stateJSON{
		Name: name, Permits: s.Limit.Permits, PerUS: s.Limit.Per.Microseconds(), Algorithm: s.Limit.Algorithm.String(),
		Scope: s.Limit.Scope.String(),
		Epoch: s.Epoch, Settled: s.Settled, Used: s.Used, Remaining: s.Remaining,
		RetryAfterUS: s.RetryAfter.Microseconds(), ResetAfterUS: s.ResetAfter.Microseconds(),
		Failover: s.Limit.Failover, Lost: s.Lost, Shards: []shardJSON{}, crowd: who,
	}
	for _, sh := range s.Shards {
		j := shardJSON{Tag: sh.Tag, Slot: sh.Slot, Node: sh.Node, Algorithm: sh.Algorithm.String(), Target: sh.Target,
			Share: sh.Share,
			Used:  sh.Used, Free: sh.Free, QuarantineUS: sh.Quarantine.Microseconds()}
		if sh.Err != nil {
			j.Error = sh.Err.Error()
		}
		out.Shards = append(out.Shards, j)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

func printState(w io.Writer, name string, s shardlimit.State, who crowd) error {
	var b strings.Builder
	r := rate.Rate{Permits: s.Limit.Permits, Per: s.Limit.Per}
	if s.Limit.Scope == shardlimit.PerParticipant {
		_, err := fmt.Fprintf(w,
			"%s  %s, %s for each participant, layout %d\nevery process counts for itself; nothing of that is in "+
				"Redis\n",
			name, r, s.Limit.Algorithm, s.Epoch)
		return err
	}
	fmt.Fprintf(&b, "%s  %s, %s over %d shards, layout %d%s\n", name, r, s.Limit.Algorithm, len(s.Shards), s.Epoch,
		moving(s))
	fmt.Fprintf(&b, "in use or reserved %s of %s, free %s", draw.Count(s.Used), draw.Count(s.Limit.Permits),
		draw.Count(s.Remaining))
	if s.RetryAfter > 0 {
		fmt.Fprintf(&b, ", the next permit in %s", short(s.RetryAfter))
	}
	if s.ResetAfter > 0 {
		fmt.Fprintf(&b, ", all free in %s", short(s.ResetAfter))
	}
	if len(s.Lost) > 0 {
		fmt.Fprintf(&b, "\nlost: %s; what the limit had there %s", strings.Join(s.Lost, ", "), takenOver(s))
	}
	nodeWidth := len("node")
	for _, sh := range s.Shards {
		nodeWidth = max(nodeWidth, len(sh.Node))
	}
	fmt.Fprintf(&b, "\n\n%-5s  %5s  %-*s  %10s  %10s  %10s\n", "shard", "slot", nodeWidth, "node", "share", "used",
		"free")
	for _, sh := range s.Shards {
		fmt.Fprintf(&b, "%-5s  %5d  %-*s  ", sh.Tag, sh.Slot, nodeWidth, sh.Node)
		if sh.Err != nil {
			fmt.Fprintf(&b, "does not answer: %v\n", sh.Err)
			continue
		}
		fmt.Fprintf(&b, "%10s  %10s  %10s  %s%s\n", draw.Count(sh.Share), draw.Count(sh.Used), draw.Count(sh.Free),
			strings.TrimRight(draw.Bar(float64(sh.Used)/float64(max(sh.Share, 1)), 10), " "),
			remark(sh, s.Limit.Algorithm))
	}
	who.print(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func moving(s shardlimit.State) string {
	if s.Settled {
		return ""
	}
	return " (capacity is still moving)"
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
		return fmt.Sprintf(" by %s%s", s.Algorithm, remark(s, s.Algorithm))
	}
	switch {
	case s.Quarantine > 0:
		return fmt.Sprintf(" shut for %s: the node lost its memory", short(s.Quarantine))
	case s.Share != s.Target:
		return fmt.Sprintf(" on the way to %s", draw.Count(s.Target))
	}
	return ""
}

// short rounds a duration to three digits or so.
func short(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if d >= 10*unit {
			return d.Round(unit / 10)
		}
	}
	return d.Round(time.Microsecond)
}
