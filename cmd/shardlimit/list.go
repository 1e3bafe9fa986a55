package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

const (
	kindLimit  = "limit"
	kindFamily = "family"
)

// handle is what limits and families have in common.
type handle interface {
	Limit() shardlimit.Limit
	SetLimit(ctx context.Context, limit shardlimit.Limit) error
}

// stored is a limit or family that was found.
type stored struct {
	name   string
	kind   string
	handle handle
	err    error // why it could not be opened
}

// list prints what is stored under the prefix.
func list(ctx context.Context, cmd *cli.Command, con console) error {
	all, err := target(cmd)
	if err != nil {
		return err
	}
	return withAll(ctx, cmd, all, func(_ context.Context, _ *shardlimit.Client, all []stored, err error) error {
		if len(all) == 0 && err == nil && !cmd.Bool("json") {
			_, err := fmt.Fprintf(con.out, "no limits are stored under the prefix %q; shardlimit set creates one\n",
				cmd.String("prefix"))
			return err
		}
		return errors.Join(err, printAll(con.out, cmd.Bool("json"), all))
	})
}

// withAll finds and opens all limits and families of the prefix on these nodes, and calls do, until
// interrupted. What was deleted meanwhile is left out. err is for what could not be looked at; the
// rest is there all the same.
func withAll(ctx context.Context, cmd *cli.Command, nodes []shardlimit.Node,
	do func(ctx context.Context, client *shardlimit.Client, all []stored, err error) error) error {
	client, err := newClient(shardlimit.Config{Nodes: nodes, KeyPrefix: cmd.String("prefix"), CallTimeout: adminCall})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := interruptible(ctx)
	defer stop()
	found, err := scan(ctx, nodes, cmd.String("prefix"))
	var all []stored
	for _, s := range found {
		within, cancel := context.WithTimeout(ctx, adminTimeout)
		if s.kind == kindFamily {
			s.handle, s.err = client.OpenFamily(within, s.name)
		} else {
			s.handle, s.err = client.Open(within, s.name)
		}
		cancel()
		if !errors.Is(s.err, shardlimit.ErrNotFound) {
			all = append(all, s)
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return do(ctx, client, all, err)
}

// printAll prints a line for each limit and family.
func printAll(w io.Writer, asJSON bool, all []stored) error {
	encoder, table := json.NewEncoder(w), tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range all {
		var limit shardlimit.Limit
		text, fault := "", ""
		if s.err != nil {
			fault = oneLine(s.err)
			text = "cannot be read: " + fault
		} else if limit, text = s.handle.Limit(), describe(s.handle.Limit()); s.kind == kindFamily {
			text = "for each key: " + text
		}
		if !asJSON {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", draw.Name(s.name), s.kind, text) // Flush has the error
			continue
		}
		j := jsonOf(s.name, s.kind, limit)
		j.Error = fault
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return table.Flush()
}
