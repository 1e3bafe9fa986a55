package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// CutName splits NAME=ADDRESS; an equals sign later in a URL does not count. Without a name it is
// empty.
func CutName(s string) (name, address string) {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "=:/?@"); i > 0 && s[i] == '=' {
		return s[:i], s[i+1:]
	}
	return "", s
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
	option, err := rueidis.ParseURL(address)
	if err != nil && plain {
		return option, fmt.Errorf("%q is not host:port; a URL begins with redis:// or rediss://", s)
	}
	if err != nil {
		return option,
			errors.New("a URL cannot be read; write redis://user:password@host:port/db, with special characters in " +
				"the password as %XX")
	}
	return option, nil
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
