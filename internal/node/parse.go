package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

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

// isHostPort reports whether it is host:port.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && !strings.ContainsAny(host, "/?@") && validPort(port)
}

// validPort reports whether there can be such a port.
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
	plain := !strings.Contains(s, "://")
	address := s
	if plain {
		address = "redis://" + s
	}
	host := hostOf(address)
	if strings.ContainsAny(host, "; \t") || strings.Count(s, "://") > 1 {
		return rueidis.ClientOption{}, fmt.Errorf("%q is not host:port; a comma stands between addresses", host)
	}
	if right := bracketed(host); right != "" {
		return rueidis.ClientOption{}, fmt.Errorf("an IPv6 address stands in brackets: write %s", right)
	}
	if strings.Count(host, ":") > 1 && host[0] != '[' {
		return rueidis.ClientOption{}, fmt.Errorf("%q is not host:port: it has two ports", host)
	}
	option, err := rueidis.ParseURL(address)
	if plain && (err != nil || strings.HasPrefix(s, "=")) {
		return option, fmt.Errorf("%q is not host:port or NAME=host:port; a URL begins with redis://, rediss:// or "+
			"unix://", s[strings.LastIndex(s, "@")+1:])
	}
	if err != nil {
		return option,
			errors.New("a URL cannot be read; write redis://user:password@host:port/db, with special characters in " +
				"the password as %XX")
	}
	if option.SelectDB < 0 {
		return option, fmt.Errorf("%d is no database; it must be 0 or more", option.SelectDB)
	}
	for _, a := range option.InitAddress {
		if _, port, err := net.SplitHostPort(a); err == nil && !validPort(port) {
			return option, fmt.Errorf("%q is no port; it must be 1 to 65535", port)
		}
	}
	return option, nil
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

// bracketed returns how an IPv6 address without brackets is written; of anything else it is empty.
func bracketed(host string) string {
	is := func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is6()
	}
	if i := strings.LastIndex(host, ":"); i > 0 && is(host[:i]) {
		return "[" + host[:i] + "]" + host[i:]
	}
	if is(host) {
		return "[" + host + "]:6379"
	}
	return ""
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
