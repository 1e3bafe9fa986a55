package main

import (
	"cmp"
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
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/urfave/cli/v3"
)

const showHelp = `Nothing is consumed and nothing is written. If a shard does not answer, the
exit code is 1. With --every it shows the limit again and again, until
interrupted.

Without NAME it lists the limits and families of the prefix. For that it
looks at the keys of every server with SCAN, which slows nobody down, but
takes long where there are many keys.

Examples:

  shardlimit show --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit show mails --participant ann --redis 10.0.0.1:6379
  shardlimit show mails --every 1s --redis 10.0.0.1:6379`

func showCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show a limit: its shards, what is in use, who contends for it; or list all",
		ArgsUsage:   "[NAME]",
		Description: showHelp,
		Flags: append([]cli.Flag{
			keyFlag(),
			&cli.StringSliceFlag{Name: "participant", Usage: "show the participant of this `NAME` by its name; may be " +
				"repeated (Redis knows only a hash of it)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON: an object, or one a line for each that is listed; times " +
				"are in microseconds"},
			&cli.DurationFlag{Name: "every", HideDefault: true, Validator: atLeast(10 * time.Millisecond),
				Usage: "show it again and again, after this `TIME`"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			for _, flag := range []string{"key", "participant", "every"} {
				if cmd.Args().Len() == 0 && cmd.IsSet(flag) {
					return usagef("--%s needs the NAME of a limit", flag)
				}
			}
			switch {
			case cmd.IsSet("every") && cmd.Bool("json"):
				return usagef("--every is for people, and --json for programs")
			case cmd.Args().Len() == 0:
				return list(ctx, cmd, con)
			}
			do, within := show, adminTimeout
			if cmd.IsSet("every") {
				do, within = watch, forLong
			}
			return withLimit(ctx, cmd, within, nil, func(ctx context.Context, l *shardlimit.Limiter) error {
				return do(ctx, cmd, con, l)
			})
		},
	}
}

func show(ctx context.Context, cmd *cli.Command, con console, l *shardlimit.Limiter) (err error) {
	k := lookAt(ctx, l, cmd.StringSlice("participant"))
	if len(k.state.Shards) == 0 && k.err != nil {
		return k.err
	}
	if cmd.Bool("json") {
		encoder := json.NewEncoder(con.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(k.json())
	} else {
		_, err = io.WriteString(con.out, k.text())
	}
	if err == nil && unseen(k.name, k.state) != nil {
		return errTold
	}
	return errors.Join(err, k.err)
}

// watch shows a limit again and again, until ctx is done.
func watch(ctx context.Context, cmd *cli.Command, con console, l *shardlimit.Limiter) error {
	page := draw.NewPage(con.out)
	defer page.Close()
	for {
		saw := lookAt(ctx, l, cmd.StringSlice("participant"))
		if ctx.Err() != nil { // it was cut short, and says nothing
			return nil
		}
		if err := page.Show(saw.rows(page)); err != nil {
			return err
		}
		clock.Sleep(ctx, cmd.Duration("every"))
	}
}

// rows are the text, as a page has room for it.
func (k *look) rows(page *draw.Page) []string {
	width, _ := page.Size()
	rows := strings.Split(strings.TrimSuffix(k.text(), "\n"), "\n")
	if page.Terminal {
		for i, row := range rows {
			rows[i] = draw.Clip(row, width)
		}
	}
	return rows
}

// look is the state of a limit at one moment, and of its participants. Its error ends no program,
// because the next look may succeed.
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

func (k *look) seen() bool { return len(k.state.Shards) > 0 || k.err == nil }

// limitJSON is a limit, as show --json prints it in a list. The names of fields of JSON are a
// promise to scripts.
type limitJSON struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // limit or family
	Permits   int64  `json:"permits"`
	PerUS     int64  `json:"per_us"`
	Algorithm string `json:"algorithm"`
	Scope     string `json:"scope"`
	Shards    int    `json:"shards"`
	Burst     int64  `json:"burst"`
	LeaseUS   int64  `json:"lease_us"`
	Revision  int64  `json:"revision"`
	Mode      string `json:"mode"`
	Error     string `json:"error,omitempty"`
}

func jsonOf(name, kind string, l shardlimit.Limit) limitJSON {
	return limitJSON{Name: name, Kind: kind, Permits: l.Permits, PerUS: l.Per.Microseconds(),
		Algorithm: l.Algorithm.String(), Scope: l.Scope.String(), Shards: l.Shards, Burst: l.Burst,
		LeaseUS: l.Lease.Microseconds(), Revision: l.Revision, Mode: l.Mode.String()}
}

// stateJSON is a limit with what is in use, as show NAME --json prints it.
type stateJSON struct {
	limitJSON
	Epoch        int64       `json:"epoch"`
	Settled      bool        `json:"settled"`
	Used         int64       `json:"used"`
	Remaining    int64       `json:"remaining"`
	RetryAfterUS int64       `json:"retry_after_us"`
	ResetAfterUS int64       `json:"reset_after_us"`
	Takeover     bool        `json:"takeover"`
	Lost         []string    `json:"lost,omitempty"`
	Records      []string    `json:"records,omitempty"`
	Shards       []shardJSON `json:"shards"` // in place of their number
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

func (k *look) json() stateJSON {
	s := &k.state
	out := stateJSON{limitJSON: jsonOf(k.name, kindLimit, s.Limit), Epoch: s.Epoch, Settled: s.Settled, Used: s.Used,
		Remaining: s.Remaining, RetryAfterUS: s.RetryAfter.Microseconds(), ResetAfterUS: s.ResetAfter.Microseconds(),
		Takeover: s.Takeover, Lost: s.Lost, Records: s.Records, Shards: []shardJSON{}, crowd: k.who}
	if !k.seen() {
		out.limitJSON.Error = oneLine(k.err)
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

func (k *look) text() string {
	if !k.seen() {
		return fmt.Sprintf("%s  %s\n", draw.Name(k.name), oneLine(k.err))
	}
	var b strings.Builder
	s := &k.state
	moving := ""
	if !s.Settled {
		moving = " (capacity is still moving)"
	}
	fmt.Fprintf(&b, "%s  %s%s\n", draw.Name(k.name), describe(s.Limit), moving)
	if s.Limit.Scope == shardlimit.PerParticipant {
		b.WriteString("every process counts for itself; nothing of that is in Redis\n")
		return b.String()
	}
	printUse(&b, s)
	printShards(&b, s)
	if why := unseen(k.name, *s); why != nil {
		fmt.Fprintf(&b, "\n%s\n", draw.Clip(oneLine(why), 300))
	}
	k.who.print(&b)
	return b.String()
}

func rateOf(l shardlimit.Limit) spelling.Rate { return spelling.Rate{Permits: l.Permits, Per: l.Per} }

// describe is a limit in one line: 500/s, sliding-log over 8 shards, lease 10ms.
func describe(l shardlimit.Limit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", rateOf(l), spelling.Of(l.Algorithm))
	switch {
	case l.Scope == shardlimit.PerParticipant:
		b.WriteString(" for each participant")
	case l.Shards > 0:
		fmt.Fprintf(&b, " over %s", draw.Plural(int64(l.Shards), "shard"))
	}
	if l.Mode != shardlimit.Enforced {
		fmt.Fprintf(&b, ", %s", l.Mode)
	}
	if l.Burst > 0 {
		fmt.Fprintf(&b, ", burst %s", draw.Count(l.Burst))
	}
	if l.Lease > 0 {
		fmt.Fprintf(&b, ", lease %s", draw.Span(l.Lease))
	}
	if l.Revision > 0 {
		fmt.Fprintf(&b, ", revision %d", l.Revision)
	}
	return b.String()
}

// printUse tells how much of the whole limit is in use.
func printUse(b *strings.Builder, s *shardlimit.State) {
	fmt.Fprintf(b, "in use or reserved %s of %s, free %s\n", draw.Count(s.Used), draw.Count(s.Limit.Permits),
		draw.Count(s.Remaining))
	if s.RetryAfter > 0 {
		fmt.Fprintf(b, "the next permit in %s\n", draw.About(s.RetryAfter))
	}
	if s.ResetAfter > 0 {
		fmt.Fprintf(b, "all free in %s\n", draw.About(s.ResetAfter))
	}
	if len(s.Lost) > 0 {
		then := "goes to the others once nothing of it can be in use"
		if s.Settled {
			then = "is served by the others"
		}
		fmt.Fprintf(b, "lost: %s; what the limit had there %s\n", strings.Join(s.Lost, ", "), then)
	}
	if len(s.Records) > 0 {
		fmt.Fprintf(b, "records are on %s\n", strings.Join(s.Records, ", "))
	}
}

// barColumns are those of the bar that tells how much of a shard is in use.
const barColumns = 10

// printShards is a table with a row for each shard.
func printShards(b *strings.Builder, s *shardlimit.State) {
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
		bar := strings.TrimRight(draw.Bar(float64(sh.Used)/float64(max(sh.Share, 1)), barColumns), " ")
		fmt.Fprintf(b, "%10s  %10s  %10s", draw.Count(sh.Share), draw.Count(sh.Used), draw.Count(sh.Free))
		if more := bar + remark(sh, s.Limit.Algorithm); more != "" {
			b.WriteString("  " + strings.TrimPrefix(more, " "))
		}
		b.WriteString("\n")
	}
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

// maxRows is how many participants are shown one by one.
const maxRows = 20

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

// readCrowd asks who contends for the limit. An error is part of the answer.
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
		b.WriteString("\nnot every shard told who contends\n")
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
