package shardlimit

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/node"
)

// Node is a Redis endpoint that can hold shards: one server, a Sentinel set,
// or a whole Redis Cluster.
type Node struct {
	// Name is a label for logs, metrics and Drain; keep it when the address changes. The default is
	// the first address. Processes may call a server differently: it remembers the name under which
	// it was used first with the key prefix, and by that its shards are placed.
	Name string
	// Redis says how to connect. shardlimit connects on first use and closes
	// the connection in Close. Some options are always set: pipelining on,
	// client-side caching off, no connection lifetime (a connection that
	// expires would re-send a spend), and a bounded dial that does not depend
	// on a caller's context.
	Redis rueidis.ClientOption
	// Client is an existing client to use instead. It is not closed. It should
	// have been made with AlwaysPipelining and without ConnLifetime.
	Client rueidis.Client
	// Weight is the node's part of the shards relative to the others; 0 means 1.
	Weight float64
	// Drain says that the node is about to go: it gets no new shards, and Rebalance or
	// SetLimit moves away what it has. Until then it is used as before.
	Drain bool
}

// in returns the Node as the engine has it.
func (n *Node) in() node.Spec {
	return node.Spec{Name: n.Name, Option: n.Redis, Client: n.Client, Weight: n.Weight, Drain: n.Drain}
}

// ParseNodes reads a list of independent servers with commas between, as
// "redis-a:6379,redis-b:6379". Each is host, host:port or a URL,
// redis://user:password@host:port/db, or rediss:// for TLS. NAME=URL gives it a Name, which may be
// the address by which others know it; without one it is known by its own address. Ports are 1 to
// 65535. The error is ErrInvalidConfig, has one line, and never shows a password.
func ParseNodes(list string) ([]Node, error) {
	if strings.TrimSpace(list) == "" {
		return nil, fmt.Errorf("%w: the list of nodes is empty; write redis-a:6379,redis-b:6379", ErrInvalidConfig)
	}
	var nodes []Node
	for s := range strings.SplitSeq(list, ",") {
		name, address := node.CutName(s)
		option, err := node.ParseSingle(address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
		}
		nodes = append(nodes, Node{Name: name, Redis: option})
	}
	return nodes, nil
}
