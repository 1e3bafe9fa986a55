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

const drainHelp = `Moves every limit and family of the prefix off a node, which is one of those
that --redis lists: by its NAME if it has one there, else by its address. It
tells how far it is, and ends when nothing is left on the node. Interrupt it
whenever you like: the move goes on.

Processes that list the node may put limits on it again, new ones and those
that "set" or SetLimit changes, as long as they do not drain it too
(Node.Drain). When the command has ended, take the node out of every list.

Example:

  shardlimit drain 10.0.0.3:6379 \
    --redis 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379`

func drainCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "drain",
		Usage:       "move everything off a node",
		ArgsUsage:   "NODE",
		Description: drainHelp,
		Flags:       append([]cli.Flag{maxKeysFlag()}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() == 0 {
				return usagef("%s needs a NODE, as --redis has it; see %s --help", called(cmd), cmd.FullName())
			}
			return drain(ctx, cmd, con)
		},
	}
}

func drain(ctx context.Context, cmd *cli.Command, con console) error {
	all, err := target(cmd)
	if err != nil {
		return err
	}
	node, err := drained(all, cmd.Args().First())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return withCatalogOf(ctx, cmd, all,
		func(ctx context.Context, client *shardlimit.Client, found []stored, err error) error {
			if err != nil {
				return fmt.Errorf("nothing was moved, because not all is known: %w", err)
			}
			return drainAll(ctx, con, client, node, found)
		})
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

// drainAll moves what was found, and follows it until nothing is on the node.
func drainAll(ctx context.Context, con console, client *shardlimit.Client, node string, found []stored) error {
	m := move{away: node, con: con}
	var families []*shardlimit.Family
	for _, s := range found {
		switch {
		case s.err != nil:
			return fmt.Errorf("nothing was moved, because %s cannot be read: %w", draw.Name(s.name), s.err)
		case s.limiter != nil:
			m.limits = append(m.limits, s.limiter)
		default:
			families = append(families, s.family)
		}
	}
	if err := rebalanceWithin(ctx, client); err != nil {
		return err
	}
	if err := m.follow(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(con.out, drainedLine(node, int64(len(m.limits)), families))
	return err
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

// rebalanceWithin moves what the client has opened.
func rebalanceWithin(ctx context.Context, client *shardlimit.Client) error {
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := client.Rebalance(within)
	if ctx.Err() != nil {
		return errInterruptedMove
	}
	if errors.Is(err, shardlimit.ErrNotFound) { // deleted meanwhile
		return nil
	}
	return err
}
