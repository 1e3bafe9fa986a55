package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/catalog"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

// openAtOnce is how many limits are opened at the same time.
const openAtOnce = 16

const (
	kindLimit  = "limit"
	kindFamily = "family"
)

// list prints what is stored under the prefix.
func list(ctx context.Context, cmd *cli.Command, con console) error {
	all, err := target(cmd)
	if err != nil {
		return err
	}
	return withCatalogOf(ctx, cmd, all, func(_ context.Context, _ *shardlimit.Client, all []stored, err error) error {
		if len(all) == 0 && err == nil && !cmd.Bool("json") {
			_, err := fmt.Fprintf(con.out, "no limits are stored under the prefix %q; shardlimit set creates one\n",
				cmd.String("prefix"))
			return err
		}
		return errors.Join(err, printAll(con.out, cmd.Bool("json"), all))
	})
}

// stored is a limit or family that was found.
type stored struct {
	name    string
	kind    string
	limiter *shardlimit.Limiter // of a limit
	family  *shardlimit.Family  // of a family
	err     error               // why it could not be opened
}

// withCatalogOf finds and opens all limits and families of the prefix on these nodes, and calls do,
// until interrupted. err is for what could not be looked at; the rest is there all the same.
func withCatalogOf(ctx context.Context, cmd *cli.Command, all []shardlimit.Node,
	do func(ctx context.Context, client *shardlimit.Client, all []stored, err error) error) error {
	client, err := newClient(shardlimit.Config{Nodes: all, KeyPrefix: cmd.String("prefix"), CallTimeout: adminCall})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := interruptible(ctx)
	defer stop()
	found, err := catalog.Scan(ctx, all, cmd.String("prefix"))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return do(ctx, client, openAll(ctx, client, found), err)
}

// openAll opens what was found. What was deleted meanwhile is left out.
func openAll(ctx context.Context, client *shardlimit.Client, found catalog.Found) []stored {
	all := make([]stored, len(found.Limits)+len(found.Families))
	busy := make(chan struct{}, openAtOnce)
	var wg sync.WaitGroup
	for i, name := range slices.Concat(found.Limits, found.Families) {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			ctx, cancel := context.WithTimeout(ctx, adminTimeout)
			defer cancel()
			s := &all[i]
			s.name, s.kind = name, kindLimit
			if i < len(found.Limits) {
				s.limiter, s.err = client.Open(ctx, name)
				return
			}
			s.kind = kindFamily
			s.family, s.err = client.OpenFamily(ctx, name)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(all, func(s stored) bool { return errors.Is(s.err, shardlimit.ErrNotFound) })
}

// printAll prints a line for each limit and family.
func printAll(w io.Writer, asJSON bool, all []stored) error {
	encoder, table := json.NewEncoder(w), tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range all {
		var limit shardlimit.Limit
		text, fault := "", ""
		switch {
		case s.err != nil:
			fault = oneLine(s.err)
			text = "cannot be read: " + fault
		case s.family != nil:
			limit = s.family.Limit()
			text = "for each key: " + describe(limit)
		default:
			limit = s.limiter.Limit()
			text = describe(limit)
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
