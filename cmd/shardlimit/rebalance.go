package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

const rebalanceHelp = `Arranges a limit, or with --all every limit and family of the prefix, over
the nodes as they are now. After a node was added: give it to every process
first. The capacity follows as what was used leaves the window; the command
tells how far it is, and ends when all has moved. Interrupt it whenever you
like: the move goes on. Keys of a family move as they are used.

With --drain everything moves off a node, which is one of those that --redis
lists: by its NAME if it has one there, else by its address. Processes that
list the node may put limits on it again, new ones and those that "set" or
SetLimit changes, as long as they do not drain it too (Node.Drain). When the
command has ended, take the node out of every list.

Examples:

  shardlimit rebalance mails --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit rebalance --all --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit rebalance --drain 10.0.0.3:6379 \
    --redis 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379`

func rebalanceCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "rebalance",
		Usage:       "arrange limits over the nodes as they are now, or off one of them",
		ArgsUsage:   "[NAME]",
		Description: rebalanceHelp,
		Flags: append([]cli.Flag{
			familyFlag(),
			&cli.BoolFlag{Name: "all", Usage: "move every limit and family of the prefix"},
			&cli.StringFlag{Name: "drain", Usage: "move everything off this `NODE`, as --redis has it"},
			maxKeysFlag(),
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return rebalance(ctx, cmd, con) },
	}
}

func rebalance(ctx context.Context, cmd *cli.Command, con console) error {
	named, every, drains := cmd.Args().Len() > 0, cmd.Bool("all"), cmd.IsSet("drain")
	switch {
	case drains && (named || every):
		return usagef("--drain moves everything off a node; leave the NAME and --all out")
	case named && every:
		return usagef("--all moves every limit and family; leave the NAME out")
	case named && cmd.IsSet("max-keys"):
		return errNothingToSearch
	case named:
		return rebalanceOne(ctx, cmd, con)
	case cmd.Bool("family"):
		return usagef("--family needs the NAME of a family")
	case !every && !drains:
		return usagef("rebalance needs the NAME of a limit, --all, or --drain NODE")
	}
	all, err := target(cmd)
	if err != nil {
		return err
	}
	m := move{con: con}
	if cmd.IsSet("drain") {
		if m.away, err = drained(all, cmd.String("drain")); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return withCatalogOf(ctx, cmd, all,
		func(ctx context.Context, client *shardlimit.Client, found []stored, err error) error {
			if err != nil {
				return fmt.Errorf("nothing was moved, because not all is known: %w", err)
			}
			for _, s := range found {
				if s.err != nil {
					return fmt.Errorf("nothing was moved, because %s cannot be read: %w", draw.Name(s.name), s.err)
				}
			}
			return m.run(ctx, time.Minute, client.Rebalance, found)
		})
}

// rebalanceOne arranges the limit or family of a name. It looks at no other key.
func rebalanceOne(ctx context.Context, cmd *cli.Command, con console) error {
	client, err := connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	m, s := move{con: con}, stored{name: cmd.Args().First()}
	do := func(ctx context.Context) error { return s.limiter.Rebalance(ctx) }
	if cmd.Bool("family") {
		within, cancel := context.WithTimeout(ctx, adminTimeout)
		defer cancel()
		s.family, err = openFamily(within, cmd, client, s.name)
		do = func(ctx context.Context) error { return s.family.Rebalance(ctx) }
	} else {
		s.limiter, err = openFor(ctx, cmd, client, s.name)
	}
	if err != nil {
		return err
	}
	return explain(m.run(ctx, adminTimeout, do, []stored{s}), s.name)
}

// run has what was found moved, follows it, and tells where it is.
func (m *move) run(ctx context.Context, within time.Duration, do func(context.Context) error, found []stored) error {
	var families []*shardlimit.Family
	for _, s := range found {
		if s.limiter != nil {
			m.limits = append(m.limits, s.limiter)
		} else {
			families = append(families, s.family)
		}
	}
	began, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := do(began)
	if ctx.Err() != nil {
		return errInterruptedMove
	}
	if err != nil && (len(found) == 1 || !errors.Is(err, shardlimit.ErrNotFound)) { // deleted meanwhile
		return err
	}
	if err := m.follow(ctx); err != nil {
		return err
	}
	if m.away != "" {
		_, err := fmt.Fprintln(m.con.out, drainedLine(m.away, int64(len(m.limits)), families))
		return err
	}
	for _, l := range m.limits {
		err := allSeen(ctx, l)
		if err == nil {
			_, err = fmt.Fprintf(m.con.out, "%s: %s, all where it should be\n", draw.Name(l.Name()),
				describe(l.Limit()))
		}
		if err != nil {
			return err
		}
	}
	for _, f := range families {
		_, err := fmt.Fprintf(m.con.out, "%s: its keys are placed over the nodes; each moves when it is used\n",
			draw.Name(f.Name()))
		if err != nil {
			return err
		}
	}
	return nil
}

// allSeen names the shards that do not answer: that they have what they should nobody can tell.
func allSeen(ctx context.Context, l *shardlimit.Limiter) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	state, err := l.Peek(ctx)
	if err != nil {
		return explain(err, l.Name())
	}
	var names []string
	for _, sh := range state.Shards {
		if sh.Err != nil {
			names = append(names, fmt.Sprintf("%s on %s", sh.Tag, sh.Node))
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, causes := unseen(state)
	return saidf("%s: the others are where they should be, but these shards were not seen: %s: %s", draw.Name(l.Name()),
		strings.Join(names, ", "), strings.Join(causes, "; "))
}

// drained marks the node that goes, and returns the name by which it is known.
func drained(all []shardlimit.Node, name string) (string, error) {
	var known []string
	for i := range all {
		n := &all[i]
		called := n.Name
		if called == "" {
			called = n.Redis.InitAddress[0]
		}
		if called == name {
			n.Drain = true
		}
		known = append(known, called)
	}
	for _, n := range all {
		switch {
		case n.Drain && len(all) == 1:
			return "", usagef("%s is the only node; list with --redis all that the processes list", name)
		case n.Drain:
			return name, nil
		}
	}
	return "", usagef("%q is none of the nodes%s; they are %s", name, didYouMean(name, "", known),
		strings.Join(known, ", "))
}

// drainedLine says what is to be done with a node that was drained.
func drainedLine(node string, limits int64, families []*shardlimit.Family) string {
	line := fmt.Sprintf("%s: none of %s is on it any more; ", node, draw.Plural(limits, "limit"))
	var longest time.Duration
	for _, f := range families {
		longest = max(longest, movesWithin(f))
	}
	if longest > 0 {
		line += fmt.Sprintf("keys of families may need it for %s more; then ", draw.Span(longest))
	}
	return line + "take it out of every list"
}

// movesWithin is how long after a move the node may still be needed by keys of the family: until
// all that was used there has left the window of every key, and no process goes by the list before.
// Clocks run up to 1 % fast.
func movesWithin(f *shardlimit.Family) time.Duration {
	limit := f.Limit()
	fills := time.Duration(0)
	if limit.Burst > limit.Permits {
		fills = time.Duration(float64(limit.Per) * float64(limit.Burst) / float64(limit.Permits))
	}
	return 10*time.Second + 41*max(limit.Per, fills)/10
}
