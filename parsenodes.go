package shardlimit

import (
	"fmt"
	"strings"

	"github.com/shardlimit/shardlimit/internal/node"
)

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
