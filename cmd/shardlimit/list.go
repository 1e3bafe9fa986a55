package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

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
		if cmd.Bool("json") {
			return errors.Join(err, listJSON(con.out, all))
		}
		if err != nil && len(all) == 0 {
			return err
		}
		return errors.Join(err, listText(con.out, all, cmd.String("prefix")))
	})
}

// errNothingToSearch: a limit that has a name is not searched for.
var errNothingToSearch = usagef("--max-keys bounds the search for all limits; it does nothing with a NAME")

func maxKeysFlag() cli.Flag {
	return &cli.IntFlag{Name: "max-keys", Value: 10_000_000,
		Usage: "without NAME, look at no more than so many keys of each server, `NUMBER`"}
}

// stored is a limit or family that was found.
type stored struct {
	name, kind string
	limiter    *shardlimit.Limiter // of a limit
	family     *shardlimit.Family  // of a family
	err        error               // why it could not be opened
}

func (s *stored) limit() shardlimit.Limit {
	switch {
	case s.limiter != nil:
		return s.limiter.Limit()
	case s.family != nil:
		return s.family.Limit()
	}
	return shardlimit.Limit{}
}

// withCatalogOf finds and opens all limits and families of the prefix on these nodes, and calls do,
// until interrupted. err is for what could not be looked at; the rest is there all the same.
func withCatalogOf(ctx context.Context, cmd *cli.Command, all []shardlimit.Node,
	do func(ctx context.Context, client *shardlimit.Client, all []stored, err error) error) error {
	if cmd.Int("max-keys") < 1 {
		return usagef("--max-keys is %d; it must be at least 1", cmd.Int("max-keys"))
	}
	client, err := newClient(shardlimit.Config{Nodes: all, KeyPrefix: cmd.String("prefix"), CallTimeout: adminCall})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	found, err := catalog.Scan(ctx, all, cmd.String("prefix"), cmd.Int("max-keys"))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if found.Cut {
		err = errors.Join(err, fmt.Errorf("a server has more than %s keys, and names may be missing; see --max-keys",
			draw.Count(int64(cmd.Int("max-keys")))))
	}
	return do(ctx, client, openAll(ctx, client, found), err)
}

// openAll opens what was found. What was deleted meanwhile is left out.
func openAll(ctx context.Context, client *shardlimit.Client, found catalog.Found) []stored {
	var all []stored
	for _, name := range found.Limits {
		all = append(all, stored{name: name, kind: kindLimit})
	}
	for _, name := range found.Families {
		all = append(all, stored{name: name, kind: kindFamily})
	}
	busy := make(chan struct{}, openAtOnce)
	var wg sync.WaitGroup
	for i := range all {
		s := &all[i]
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			ctx, cancel := context.WithTimeout(ctx, adminTimeout)
			defer cancel()
			if s.kind == kindFamily {
				s.family, s.err = client.OpenFamily(ctx, s.name)
				return
			}
			s.limiter, s.err = client.Open(ctx, s.name)
		})
	}
	wg.Wait()
	there := all[:0]
	for _, s := range all {
		if !errors.Is(s.err, shardlimit.ErrNotFound) {
			there = append(there, s)
		}
	}
	return there
}

func listJSON(w io.Writer, all []stored) error {
	encoder := json.NewEncoder(w)
	var errs []error
	for _, s := range all {
		j := asJSON(s.name, s.kind, s.limit())
		if s.err != nil {
			j.Error = oneLine(s.err)
		}
		errs = append(errs, encoder.Encode(j))
	}
	return errors.Join(errs...)
}

func listText(w io.Writer, all []stored, prefix string) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "no limits are stored under the prefix %q; shardlimit set creates one\n", prefix)
		return err
	}
	width := 0
	for _, s := range all {
		width = max(width, utf8.RuneCountInString(draw.Name(s.name)))
	}
	var b strings.Builder
	for _, s := range all {
		what := ""
		switch {
		case s.err != nil:
			what = "cannot be read: " + oneLine(s.err)
		case s.kind == kindFamily:
			what = "for each key: " + describe(s.limit())
		default:
			what = describe(s.limit())
		}
		fmt.Fprintf(&b, "%-*s  %-6s  %s\n", width, draw.Name(s.name), s.kind, what)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
