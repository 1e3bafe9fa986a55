package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/shardlimit/shardlimit"
)

// scanStep is how many keys a server looks at in one go, for about a millisecond.
const scanStep = 1000

// scan looks at all keys of every server of the nodes, and reads the names of records: limits, then
// families, each once and in order. What was found on the others is returned beside the error of a
// server that cannot be asked.
func scan(ctx context.Context, nodes []shardlimit.Node, prefix string) ([]stored, error) {
	s := scanner{prefix: prefix, found: map[stored]bool{}}
	var errs []error
	for i := range nodes {
		errs = append(errs, s.node(ctx, &nodes[i]))
	}
	all := slices.SortedFunc(maps.Keys(s.found), func(a, b stored) int {
		return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(a.name, b.name))
	})
	return all, errors.Join(errs...)
}

type scanner struct {
	prefix string
	found  map[stored]bool
}

// node looks at one node, which in a cluster is many servers.
func (s *scanner) node(ctx context.Context, n *shardlimit.Node) error {
	option := n.Redis
	option.DisableCache = true // not every server has it
	client, err := rueidis.NewClient(option)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // the rest of it says again where
		}
		return fmt.Errorf("cannot reach %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	defer client.Close()
	servers := map[string]rueidis.Client{option.InitAddress[0]: client}
	if client.Mode() == rueidis.ClientModeCluster {
		servers = client.Nodes()
	}
	for address, server := range servers {
		if err := s.server(ctx, server); err != nil {
			return fmt.Errorf("cannot list the keys of %s: %w", address, err)
		}
	}
	return nil
}

func (s *scanner) server(ctx context.Context, server rueidis.Client) error {
	match := escape(s.prefix) + "{*}:m:*:limit:*"
	for cursor := uint64(0); ; {
		entry, err := server.Do(ctx, server.B().Scan().Cursor(cursor).Match(match).Count(scanStep).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range entry.Elements {
			s.note(key)
		}
		if cursor = entry.Cursor; cursor == 0 {
			return nil
		}
	}
}

// note takes the name from the key of a place of a record:
// <prefix>{<tag>}:m:<places>:limit:n:<limit> or :limit:f:<family>. It may be that of one that was
// deleted.
func (s *scanner) note(key string) {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, s.prefix), "}") // a tag has no braces
	rest, ours := strings.CutPrefix(rest, ":m:")
	_, rest, _ = strings.Cut(rest, ":") // where its records are has no colon
	name, found := strings.CutPrefix(rest, "limit:")
	if !ours || !found {
		return
	}
	if limit, ok := strings.CutPrefix(name, "n:"); ok {
		s.found[stored{name: limit, kind: kindLimit}] = true
	} else if family, ok := strings.CutPrefix(name, "f:"); ok {
		s.found[stored{name: family, kind: kindFamily}] = true
	}
}

// escape has a server take every character of a pattern as it is.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
