package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/urfave/cli/v3"
)

// adminTimeout bounds one command that looks at or changes a limit.
const adminTimeout = 10 * time.Second

// adminCall bounds one look at a shard by such a command, which may have to connect first.
const adminCall = 2 * time.Second

// connect makes a client for the nodes that the flags name.
func connect(cmd *cli.Command) (*shardlimit.Client, error) {
	all, err := target(cmd)
	if err != nil {
		return nil, err
	}
	return newClient(shardlimit.Config{Nodes: all, KeyPrefix: cmd.String("prefix"), CallTimeout: adminCall,
		NodeTimeout: cmd.Duration("node-timeout")})
}

func newClient(config shardlimit.Config) (*shardlimit.Client, error) {
	client, err := shardlimit.New(config)
	if errors.Is(err, shardlimit.ErrInvalidConfig) {
		return nil, usageError{err}
	}
	return client, err
}

// withLimit runs a command on a stored limit: it connects, opens the limit
// and calls do, all within adminTimeout and until interrupted.
func withLimit(ctx context.Context, cmd *cli.Command, do func(context.Context, *shardlimit.Limiter) error) error {
	return withClient(ctx, cmd, func(ctx context.Context, client *shardlimit.Client, name string) error {
		limiter, err := open(ctx, cmd, client, name)
		if err != nil {
			return err
		}
		return explain(do(ctx, limiter), name)
	})
}

func withClient(ctx context.Context, cmd *cli.Command,
	do func(context.Context, *shardlimit.Client, string) error) error {
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
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return do(ctx, client, name)
}

// explain says in the words of the command line what the library reports.
func explain(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shardlimit.ErrInvalidName), errors.Is(err, shardlimit.ErrInvalidLimit):
		return usageError{err}
	case errors.Is(err, shardlimit.ErrNotFound):
		return fmt.Errorf("no limit %q is stored there; check the name, the nodes and --prefix, or create it with "+
			"shardlimit set", name)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	}
	return err
}
