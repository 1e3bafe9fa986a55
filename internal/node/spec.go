package node

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Spec describes a node.
type Spec struct {
	Name   string
	Option rueidis.ClientOption
	Client rueidis.Client // the caller's own client, or nil
	Weight float64
	Drain  bool
}

// SameServer reports whether two nodes are sure to be one server, by what their options say.
func (s *Spec) SameServer(other *Spec) bool {
	if s.Client != nil || other.Client != nil {
		return s.Client == other.Client
	}
	x, y := s.Option, other.Option
	if dialsItself(x) || dialsItself(y) || x.SelectDB != y.SelectDB || x.Sentinel.MasterSet != y.Sentinel.MasterSet {
		return false
	}
	return slices.ContainsFunc(x.InitAddress,
		func(address string) bool { return slices.Contains(y.InitAddress, address) })
}

// Dialable refuses addresses that no attempt to connect could ever reach, because they would look
// like a node that is away. A program that dials by itself may write what it likes.
func Dialable(o rueidis.ClientOption) error {
	if dialsItself(o) {
		return nil
	}
	for _, address := range o.InitAddress {
		if strings.HasPrefix(address, "/") {
			continue // a Unix socket
		}
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" || strings.Contains(address, "://") {
			return fmt.Errorf("the address %q is not host:port (rueidis.ParseURL reads a URL)", address)
		}
	}
	return nil
}

// dialsItself reports whether the program makes the connections, so that addresses may mean
// anything.
func dialsItself(o rueidis.ClientOption) bool {
	return o.DialFn != nil || o.DialCtxFn != nil //nolint:staticcheck // DialFn is deprecated, but programs may still set it
}
