package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/catalog"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

// This file is about families: limits that hold for each of many keys.

// keyFlag makes NAME that of a family.
func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key",
		Usage: "`KEY` of the family NAME; allow and run bring the family's limit: a key whose calls bring another " +
			"of the same revision has it until its next call"}
}

func familyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "family", Usage: "NAME is a family: what holds for each of its keys"}
}

// open opens the limit that NAME and --key say.
func open(ctx context.Context, cmd *cli.Command, client *shardlimit.Client, name string) (*shardlimit.Limiter, error) {
	if !cmd.IsSet("key") {
		limiter, err := client.Open(ctx, name)
		return limiter, notFamily(ctx, cmd, client, name, err)
	}
	family, err := openFamily(ctx, cmd, client, name)
	if err != nil {
		return nil, err
	}
	return family.Limiter(cmd.String("key")), nil
}

// untouched returns an error if nothing of the key that --key names is in use. Most such keys are
// misspelt.
func untouched(cmd *cli.Command, s shardlimit.State) error {
	in := func(sh shardlimit.ShardState) bool { return sh.Err != nil || sh.Quarantine > 0 }
	if !cmd.IsSet("key") || s.Used > 0 || s.ResetAfter > 0 || slices.ContainsFunc(s.Shards, in) ||
		s.Limit.Scope == shardlimit.PerParticipant {
		return nil
	}
	return fmt.Errorf("nothing of the key %q is in use; check how it is written", cmd.String("key"))
}

// openOnly is openFor where the name is that of one thing only: who asks for permits of a limit
// that has the name of a family probably means the other.
func openOnly(ctx context.Context, cmd *cli.Command, client *shardlimit.Client,
	name string) (*shardlimit.Limiter, error) {
	other := make(chan error, 1)
	go func() { other <- catalog.CheckKind(ctx, client, name, cmd.IsSet("key")) }()
	limiter, err := openFor(ctx, cmd, client, name)
	if err != nil {
		return nil, err
	}
	if <-other != nil {
		return nil,
			usagef("%[1]q is a limit and a family, which count apart; have one of them under another name, and "+
				"remove the limit: shardlimit delete %[1]s", name)
	}
	return limiter, nil
}

// ownKind refuses the name of a family for a limit that may have to be made.
func ownKind(ctx context.Context, client *shardlimit.Client, name, instead string) error {
	if err := catalog.CheckKind(ctx, client, name, false); err != nil {
		return usagef("%w; %s", err, instead)
	}
	return nil
}

// openFamily says so if what was not found is the name of a limit.
func openFamily(ctx context.Context, cmd *cli.Command, client *shardlimit.Client,
	name string) (*shardlimit.Family, error) {
	family, err := client.OpenFamily(ctx, name)
	if errors.Is(err, shardlimit.ErrNotFound) {
		if taken := catalog.CheckKind(ctx, client, name, true); taken != nil {
			flag := "family"
			if cmd.IsSet("key") {
				flag = "key"
			}
			return nil, usagef("%w; leave --%s out", taken, flag)
		}
		return nil, fmt.Errorf("no family %q is stored there; check the name, the nodes and --prefix", name)
	}
	return family, explain(err, name)
}

// notFamily says so if what was not found is the name of a family.
func notFamily(ctx context.Context, cmd *cli.Command, client *shardlimit.Client, name string, err error) error {
	if !errors.Is(err, shardlimit.ErrNotFound) {
		return explain(err, name)
	}
	if _, found := client.OpenFamily(ctx, name); found != nil {
		return explain(err, name)
	}
	key, family := hasFlag(cmd, "key"), hasFlag(cmd, "family")
	switch {
	case key && family:
		return usagef("%q is a family; add --key KEY for one of its keys, or --family for all", name)
	case key:
		return usagef("%q is a family; add --key KEY for one of its keys", name)
	case family:
		return usagef("%q is a family; add --family", name)
	}
	return usagef("%q is a family, and %s is for limits; what nobody uses any more expires by itself", name,
		cmd.FullName())
}

func hasFlag(cmd *cli.Command, name string) bool {
	return slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// showFamily prints what holds for the keys.
func showFamily(w io.Writer, f *shardlimit.Family) error {
	_, err := fmt.Fprintf(w, "%s  for each key: %s\n", draw.Name(f.Name()), describe(f.Limit()))
	return err
}

func showFamilyJSON(w io.Writer, f *shardlimit.Family) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(asJSON(f.Name(), kindFamily, f.Limit()))
}

// setFamily changes what holds for the keys.
func setFamily(ctx context.Context, cmd *cli.Command, con console, client *shardlimit.Client, name string,
	change func(shardlimit.Limit) shardlimit.Limit) error {
	family, err := openFamily(ctx, cmd, client, name)
	if err != nil {
		return err
	}
	before := family.Limit()
	if err := family.SetLimit(ctx, change(before)); err != nil {
		return notSet(ctx, client, err, name, "shardlimit rebalance "+draw.Name(name)+" --family")
	}
	return tellChange(con, name, before, family.Limit())
}
