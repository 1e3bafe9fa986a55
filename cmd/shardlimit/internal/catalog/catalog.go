// Package catalog finds out which limits and families are stored under a key prefix.
package catalog

import (
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

// step is how many keys a server looks at in one go, for about a millisecond.
const step = 1000

// Found is what is stored. Names are in order, each once.
type Found struct {
	Limits, Families []string
}

// Scan looks at all keys of every server of the nodes, and reads the names of records. What
// was found on the others is returned beside the error of a server that cannot be asked.
func Scan(ctx context.Context, nodes []shardlimit.Node, prefix string) (Found, error) {
	s := scan{prefix: prefix, limits: map[string]bool{}, families: map[string]bool{}}
	var errs []error
	for i := range nodes {
		if err := s.node(ctx, &nodes[i]); err != nil {
			errs = append(errs, err)
		}
	}
	limits, families := slices.Sorted(maps.Keys(s.limits)), slices.Sorted(maps.Keys(s.families))
	return Found{Limits: limits, Families: families}, errors.Join(errs...)
}

type scan struct {
	prefix           string
	limits, families map[string]bool
}

// node looks at one node, which in a cluster is many servers.
func (s *scan) node(ctx context.Context, n *shardlimit.Node) error {
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

func (s *scan) server(ctx context.Context, server rueidis.Client) error {
	match := escape(s.prefix) + "{*}:m:*:limit:*"
	for cursor := uint64(0); ; {
		entry, err := server.Do(ctx, server.B().Scan().Cursor(cursor).Match(match).Count(step).Build()).AsScanEntry()
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
func (s *scan) note(key string) {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, s.prefix), "}") // a tag has no braces
	rest, ours := strings.CutPrefix(rest, ":m:")
	_, rest, _ = strings.Cut(rest, ":") // where its records are has no colon
	name, found := strings.CutPrefix(rest, "limit:")
	if !ours || !found {
		return
	}
	if limit, ok := strings.CutPrefix(name, "n:"); ok {
		s.limits[limit] = true
	} else if family, ok := strings.CutPrefix(name, "f:"); ok {
		s.families[family] = true
	}
}

// escape has a server take every character of a pattern as it is.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
