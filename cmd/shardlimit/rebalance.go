package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/urfave/cli/v3"
)

const rebalanceHelp = `Arranges every limit and family of the prefix over the nodes that --redis
lists. The capacity follows as what was used leaves the window; the command
ends when all has moved. If it is interrupted, the move goes on. Keys of a
family move as they are used.

With --drain everything moves off a node, which is one of those that --redis
lists: by its NAME if it has one there, else by its address. Let processes
drain it, too (Node.Drain); else they may put limits on it again. When the
command has ended, take the node out of every list.

Examples:

  shardlimit rebalance --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit rebalance --drain 10.0.0.3:6379 \
    --redis 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379`

func rebalanceCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "rebalance",
		Usage:       "arrange all limits over the nodes as they are now, or off one of them",
		Description: rebalanceHelp,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "drain", Usage: "move everything off this `NODE`, as --redis has it"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return rebalance(ctx, cmd, con) },
	}
}

func rebalance(ctx context.Context, cmd *cli.Command, con console) error {
	drain := cmd.String("drain")
	all, err := target(cmd)
	if err == nil && drain != "" {
		err = markDrained(all, drain)
	}
	if err != nil {
		return err
	}
	return withAll(ctx, cmd, all,
		func(ctx context.Context, client *shardlimit.Client, found []stored, err error) error {
			for _, s := range found {
				err = errors.Join(err, s.err)
			}
			if err != nil {
				return fmt.Errorf("nothing was moved, because not all is known: %s", oneLine(err))
			}
			return (&move{con: con, away: drain}).run(ctx, client, found)
		})
}

// markDrained marks the node that goes.
func markDrained(all []shardlimit.Node, name string) error {
	if len(all) == 1 {
		return usagef("--redis lists one node only; list all that the processes list")
	}
	var known []string
	for i := range all {
		n := &all[i]
		called := cmp.Or(n.Name, n.Redis.InitAddress[0])
		if called == name {
			n.Drain = true
			return nil
		}
		known = append(known, called)
	}
	return usagef("%q is none of the nodes; they are %s", name, strings.Join(known, ", "))
}

const (
	moveLook = 100 * time.Millisecond // how often a move is looked at
	moveTell = time.Second            // how often it is told about
)

// errInterruptedMove is the end of following a move, not of the move.
var errInterruptedMove = errors.New("interrupted; what was begun goes on while the limits are used, and the same " +
	"command goes on with the rest")

// move is limits whose capacity is on its way to where it should be.
type move struct {
	away string // the node that nothing may be left on; "": none
	con  console
}

// run has what was found moved, follows it, and tells where it is. The client has opened nothing
// else.
func (m *move) run(ctx context.Context, client *shardlimit.Client, found []stored) error {
	began, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := client.Rebalance(began)
	if ctx.Err() != nil {
		return errInterruptedMove
	}
	if err != nil {
		return err
	}
	if err := m.follow(ctx, found); err != nil {
		return err
	}
	then := ""
	keysNeed := time.Duration(0)
	for _, s := range found {
		text := "its keys are placed over the nodes; each moves when it is used"
		if s.kind == kindLimit {
			text = describe(s.handle.Limit()) + ", all where it should be"
		} else {
			keysNeed = max(keysNeed, movesWithin(s.handle.Limit()))
			then = fmt.Sprintf("keys of families may need it for %s more; then ", draw.Span(keysNeed))
		}
		if m.away == "" {
			if _, err := fmt.Fprintf(m.con.out, "%s: %s\n", draw.Name(s.name), text); err != nil {
				return err
			}
		}
	}
	if m.away != "" {
		_, err = fmt.Fprintf(m.con.out, "%s: no limit is on it any more; %stake it out of every list\n", m.away, then)
	}
	return err
}

// movesWithin is how long after a move the node may still be needed by keys of the family: until
// all that was used there has left the window of every key, and no process goes by the list before.
// Clocks run up to 1 % fast.
func movesWithin(limit shardlimit.Limit) time.Duration {
	fills := time.Duration(0)
	if limit.Burst > limit.Permits {
		fills = time.Duration(float64(limit.Per) * float64(limit.Burst) / float64(limit.Permits))
	}
	return 10*time.Second + 41*max(limit.Per, fills)/10
}

// follow returns when every limit is where it should be, and tells how far it is until then.
func (m *move) follow(ctx context.Context, found []stored) error {
	told := time.Now()
	for _, s := range found {
		l, is := s.handle.(*shardlimit.Limiter)
		for is {
			left, err := m.look(ctx, l)
			if ctx.Err() != nil {
				return errInterruptedMove
			}
			if err != nil {
				return err
			}
			if left == "" {
				break
			}
			if time.Since(told) >= moveTell {
				_, _ = fmt.Fprintf(m.con.err, "shardlimit: %s: %s\n", draw.Name(s.name), left)
				told = time.Now()
			}
			clock.Sleep(ctx, moveLook)
		}
	}
	return nil
}

// look tells what of a limit has not arrived; nothing if all has. That a shard that does not answer
// has what it should nobody can tell: it is an error once the others are where they should be.
func (m *move) look(ctx context.Context, l *shardlimit.Limiter) (left string, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	state, err := l.Peek(ctx)
	if errors.Is(err, shardlimit.ErrNotFound) { // deleted meanwhile
		return "", nil
	}
	if err != nil {
		return oneLine(err), nil
	}
	var missing int64
	gone := true
	for _, sh := range state.Shards {
		gone = gone && sh.Node != m.away
		missing += max(0, sh.Target-sh.Share)
	}
	if !state.Settled || !gone {
		return fmt.Sprintf("%s of %s are still on their way", draw.Count(missing),
			draw.Plural(state.Limit.Permits, "permit")), nil
	}
	if why := unseen(l.Name(), state); why != nil {
		return "", fmt.Errorf("%s: the others are where they should be, but not every shard was seen: %s",
			draw.Name(l.Name()), oneLine(why))
	}
	return "", nil
}
