package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/urfave/cli/v3"
)

// This file is about families: limits that hold for each of many keys.

// keyFlag makes NAME that of a family.
func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "`KEY` of the family NAME, whose limit is meant"}
}

func familyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "family", Usage: "NAME is a family: what holds for each of its keys"}
}

// open opens the limit that NAME and --key say.
func open(ctx context.Context, cmd *cli.Command, client *shardlimit.Client, name string) (*shardlimit.Limiter, error) {
	if !cmd.IsSet("key") {
		limiter, err := client.Open(ctx, name)
		return limiter, notFamily(ctx, client, name, err)
	}
	family, err := openFamily(ctx, client, name)
	if err != nil {
		return nil, err
	}
	return family.Limiter(cmd.String("key")), nil
}

func openFamily(ctx context.Context, client *shardlimit.Client, name string) (*shardlimit.Family, error) {
	family, err := client.OpenFamily(ctx, name)
	if errors.Is(err, shardlimit.ErrNotFound) {
		return nil, fmt.Errorf("no family %q is stored there; check the name, the nodes and --prefix", name)
	}
	return family, explain(err, name)
}

// notFamily says so if what was not found is the name of a family.
func notFamily(ctx context.Context, client *shardlimit.Client, name string, err error) error {
	if errors.Is(err, shardlimit.ErrNotFound) {
		if _, found := client.OpenFamily(ctx, name); found == nil {
			return usagef("%q is a family; add --key KEY for one of its keys (show and set also know --family)", name)
		}
	}
	return explain(err, name)
}

// showFamily prints what holds for the keys.
func showFamily(w io.Writer, f *shardlimit.Family) error {
	l := f.Limit()
	_, err := fmt.Fprintf(w, "%s  %s for each key, %s over %d shards\n", f.Name(),
		rate.Rate{Permits: l.Permits, Per: l.Per},
		l.Algorithm, l.Shards)
	own := f.OwnLimits()
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if err == nil {
			_, err = fmt.Fprintf(w, "%q has %s of its own\n", key,
				rate.Rate{Permits: own[key].Permits, Per: own[key].Per})
		}
	}
	return err
}

// setFamily changes what holds for the keys, or for one.
func setFamily(ctx context.Context, cmd *cli.Command, con console, client *shardlimit.Client, name string,
	change func(shardlimit.Limit) shardlimit.Limit) error {
	family, err := openFamily(ctx, client, name)
	if err != nil {
		return err
	}
	of, before, now := name, family.Limit(), family.Limit
	do := func() error { return family.SetLimit(ctx, change(before)) }
	if cmd.IsSet("key") {
		limiter := family.Limiter(cmd.String("key"))
		of, before, now = limiter.Name(), limiter.Limit(), limiter.Limit
		do = func() error {
			if cmd.Bool("unset") {
				return limiter.UnsetLimit(ctx)
			}
			want := change(before)
			want.Shards, want.Revision = 0, 0
			return limiter.SetLimit(ctx, want)
		}
	}
	if err := do(); err != nil {
		return explain(err, name)
	}
	_, err = fmt.Fprintf(con.out, "%s: %s (before: %s)\n", of, now(), before)
	return err
}
