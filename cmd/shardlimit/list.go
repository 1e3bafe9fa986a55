package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/redis/rueidis"
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

func (s *stored) open(ctx context.Context, client *shardlimit.Client) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if s.kind == kindFamily {
		s.handle, s.err = client.OpenFamily(ctx, s.name)
		return
	}
	s.handle, s.err = client.Open(ctx, s.name)
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
// interrupted. Limits that were deleted meanwhile are left out. err tells which could not be looked
// at; the rest are there all the same.
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
		if s.open(ctx, client); !errors.Is(s.err, shardlimit.ErrNotFound) {
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

// scanStep is how many keys a server looks at in one go, for about a millisecond.
const scanStep = 1000

// scan looks at all keys of every server of the nodes, and reads the names of records: limits, then
// families, each once and in order. A server that cannot be asked is an error, beside the names
// that the others have.
func scan(ctx context.Context, nodes []shardlimit.Node, prefix string) ([]stored, error) {
	found := map[stored]bool{}
	var errs []error
	for i := range nodes {
		errs = append(errs, scanNode(ctx, &nodes[i], prefix, found))
	}
	all := slices.SortedFunc(maps.Keys(found), func(a, b stored) int {
		return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(a.name, b.name))
	})
	return all, errors.Join(errs...)
}

// scanNode looks at one node, which in a cluster is many servers.
func scanNode(ctx context.Context, n *shardlimit.Node, prefix string, found map[stored]bool) error {
	option := n.Redis
	option.DisableCache = true // not every server has it
	option.DisableRetry = true // else a server that is away is asked for ever
	client, err := rueidis.NewClient(option)
	if err != nil {
		return fmt.Errorf("cannot reach %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	defer client.Close()
	var errs []error
	for address, server := range client.Nodes() {
		if err := scanServer(ctx, server, prefix, found); err != nil {
			errs = append(errs, fmt.Errorf("cannot list the keys of %s: %w", address, err))
		}
	}
	return errors.Join(errs...)
}

// scanServer looks at one server. A step may take adminCall.
func scanServer(ctx context.Context, server rueidis.Client, prefix string, found map[stored]bool) error {
	match := escape(prefix) + "{*}:m:*:limit:*"
	for cursor := uint64(0); ; {
		step, cancel := context.WithTimeout(ctx, adminCall)
		entry, err := server.Do(step, server.B().Scan().Cursor(cursor).Match(match).Count(scanStep).Build()).AsScanEntry()
		cancel()
		if err != nil {
			return err
		}
		for _, key := range entry.Elements {
			if s, ok := record(strings.TrimPrefix(key, prefix)); ok {
				found[s] = true
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			return nil
		}
	}
}

// record takes the name from the key of a place of a record, without the prefix:
// {<tag>}:m:<places>:limit:n:<limit> or :limit:f:<family>. It may be that of one that was deleted.
func record(key string) (s stored, ok bool) {
	_, rest, _ := strings.Cut(key, "}") // a tag has no braces
	rest, ours := strings.CutPrefix(rest, ":m:")
	_, rest, _ = strings.Cut(rest, ":") // where its records are has no colon
	if s.name, ok = strings.CutPrefix(rest, "limit:n:"); ok {
		s.kind = kindLimit
	} else if s.name, ok = strings.CutPrefix(rest, "limit:f:"); ok {
		s.kind = kindFamily
	}
	return s, ok && ours
}

// escape has a server take every character of a pattern as it is.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
