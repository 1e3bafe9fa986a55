package node

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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

// Check returns the specs with every default filled in, and what is wrong with each. Names have at
// most maxName bytes.
func Check(specs []Spec, maxName int) (filled []Spec, problems []error) {
	filled = slices.Clone(specs)
	names := make(map[string]bool, len(specs))
	for i := range filled {
		s := &filled[i]
		err := s.fill(maxName)
		if err == nil && names[s.Name] {
			err = fmt.Errorf("the name %q is taken by an earlier node; names must differ", s.Name)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", fmt.Sprintf("Nodes[%d]", i), err))
		}
		names[s.Name] = true
	}
	return filled, problems
}

func (s *Spec) fill(maxName int) error {
	if s.Client == nil && len(s.Option.InitAddress) == 0 {
		return errors.New("set Redis.InitAddress or Client")
	}
	if s.Client != nil && len(s.Option.InitAddress) != 0 {
		return errors.New("set Redis or Client, not both")
	}
	if err := dialable(s.Option); err != nil {
		return err
	}
	if s.Name == "" {
		if s.Client != nil {
			return errors.New("a node with a Client needs a Name, which must be the same in every process")
		}
		s.Name = s.Option.InitAddress[0]
	}
	if len(s.Name) > maxName {
		return fmt.Errorf("the name has %d bytes; at most %d are allowed", len(s.Name), maxName)
	}
	s.Weight = cmp.Or(s.Weight, 1)
	if !(s.Weight >= 1e-6 && s.Weight <= 1e6) { // so that sums and ratios of weights stay finite
		return fmt.Errorf("its Weight is %v; it must be a positive number", s.Weight)
	}
	return nil
}

// dialable refuses addresses that no attempt to connect could ever reach, because they would look
// like a node that is away. A program that dials by itself may write what it likes.
func dialable(o rueidis.ClientOption) error {
	//nolint:staticcheck // DialFn is deprecated, but programs may still set it
	if o.DialFn != nil || o.DialCtxFn != nil {
		return nil
	}
	for _, address := range o.InitAddress {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" || strings.Contains(address, "://") {
			return fmt.Errorf("the address %q is not host:port (rueidis.ParseURL reads URLs and unix://)", address)
		}
	}
	return nil
}

// CutName splits NAME=ADDRESS; an equals sign later in a URL does not count. A name may be that of
// a node which others list without one: host:port. Without a name it is empty.
func CutName(s string) (name, address string) {
	s = strings.TrimSpace(s)
	name, address, cut := strings.Cut(s, "=")
	switch {
	case !cut || name == "":
		return "", s
	case !strings.ContainsAny(name, ":/?@"):
		return name, address
	case isHostPort(name) && (strings.Contains(address, "://") || !strings.Contains(address, "@")):
		// else user:password
		return name, address
	}
	return "", s
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && !strings.ContainsAny(host, "/?@") && validPort(port)
}

func validPort(s string) bool {
	port, err := strconv.ParseUint(s, 10, 16)
	return err == nil && port > 0
}

// ParseURL reads a URL that begins with redis:// or rediss://, or a plain host or host:port. The
// error never shows a password.
func ParseURL(s string) (rueidis.ClientOption, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return rueidis.ClientOption{}, errors.New("an address is empty; write host:port or redis://host:port")
	}
	address, what := s, "a URL"
	if !strings.Contains(s, "://") {
		address = "redis://" + s
		what = strconv.Quote(hostOf(address))
	}
	option, err := rueidis.ParseURL(address)
	if err != nil || !readable(address) || s[0] == '=' || option.SelectDB < 0 ||
		slices.ContainsFunc(option.InitAddress, hasBadPort) {
		return option, errors.New(what + " cannot be read; write host:port, NAME=host:port or " +
			"redis://user:password@host:port/db (or rediss://, or unix://), with a comma between addresses, an IPv6 " +
			"address in brackets, and special characters of a password as %XX")
	}
	return option, nil
}

// readable reports whether a URL has one host and one port, or none.
func readable(address string) bool {
	host := hostOf(address)
	return strings.Count(address, "://") == 1 && !strings.ContainsAny(host, "; \t") &&
		(strings.Count(host, ":") < 2 || host[0] == '[')
}

// hasBadPort reports whether an address has a port that there cannot be.
func hasBadPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && !validPort(port)
}

// hostOf returns what a URL has where host:port stands.
func hostOf(s string) string {
	_, s, _ = strings.Cut(s, "://")
	s = s[strings.LastIndex(s, "@")+1:] // a password may hold anything
	if i := strings.IndexAny(s, "/?"); i >= 0 {
		s = s[:i]
	}
	return s
}

// ParseSingle is ParseURL for a server that stands alone.
func ParseSingle(s string) (rueidis.ClientOption, error) {
	option, err := ParseURL(s)
	if err != nil {
		return option, err
	}
	if len(option.InitAddress) > 1 {
		return option, errors.New("a URL has several addresses; list independent servers with commas")
	}
	option.ForceSingleClient = true
	return option, nil
}
