package main

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

func rebalanceCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "rebalance",
		Usage:     "arrange a limit over the nodes as they are now",
		ArgsUsage: "NAME",
		Description: "After a node was added: give it to every process first. The capacity follows as what was used " +
			"leaves the window; the command tells how far it is, and ends when all has moved. Interrupt it whenever " +
			"you like: the move goes on. Keys of a family move as they are used.\n\nExample:\n\n" +
			"  shardlimit rebalance mails \\\n    --redis 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379",
		Flags:  append([]cli.Flag{familyFlag()}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return rebalance(ctx, cmd, con) },
	}
}

func rebalance(ctx context.Context, cmd *cli.Command, con console) error {
	name, err := nameArgument(cmd)
	if err != nil {
		return err
	}
	client, err := connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if cmd.Bool("family") {
		return rebalanceFamily(ctx, cmd, con, client, name)
	}
	limiter, err := openFor(ctx, cmd, client, name)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if err := limiter.Rebalance(within); err != nil {
		return explain(err, name)
	}
	m := move{limits: []*shardlimit.Limiter{limiter}, con: con}
	if err := m.follow(ctx); err != nil {
		return err
	}
	if err := allSeen(ctx, limiter); err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.out, "%s: %s, all where it should be\n", draw.Name(name), describe(limiter.Limit()))
	return err
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

func rebalanceFamily(ctx context.Context, cmd *cli.Command, con console, client *shardlimit.Client,
	name string) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	family, err := openFamily(ctx, cmd, client, name)
	if err != nil {
		return err
	}
	if err := family.Rebalance(ctx); err != nil {
		return explain(err, name)
	}
	_, err = fmt.Fprintf(con.out, "%s: its keys are placed over the nodes; each moves when it is used\n",
		draw.Name(name))
	return err
}
