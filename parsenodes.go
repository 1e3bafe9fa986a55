package shardlimit

import (
	"errors"
	"strings"

	"github.com/shardlimit/shardlimit/internal/node"
)

// ParseNodes reads a list of independent servers with commas between, as
// "redis-a:6379,redis-b:6379". Each is host, host:port or a URL,
// redis://user:password@host:port/db, or rediss:// for TLS. NAME=URL gives it a Name; without one
// it is known by its address. The error is ErrInvalidConfig, and never shows a password.
func ParseNodes(list string) ([]Node, error) {
	var nodes []Node
	for s := range strings.SplitSeq(list, ",") {
		name, address := node.CutName(s)
		option, err := node.ParseSingle(address)
		if err != nil {
			return nil, errors.Join(ErrInvalidConfig, err)
		}
		nodes = append(nodes, Node{Name: name, Redis: option})
	}
	return nodes, nil
}
