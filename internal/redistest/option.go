package redistest

import "crypto/tls"

// Option changes how a server is started.
type Option func(*config)

type config struct {
	args  []string
	clock string      // the library that lets its clock be set; empty: none
	tls   *tls.Config // of its clients; nil: it talks plain text
	all   []string    // the command line without address and directory
}

// Args adds redis-server arguments, as in Args("--maxmemory", "2mb"). They
// override what this package sets, except port, address and directory.
func Args(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

func newConfig(opts []Option) config {
	var c config
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// after is the configuration with its whole command line, which begins with what is given.
func (c config) after(first ...string) config {
	args := append(first, "--save", "", "--appendonly", "no")
	// A replica needs no seconds of grace for others to join its full sync.
	args = append(args, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
	c.all = append(args, c.args...)
	return c
}
