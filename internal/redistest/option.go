package redistest

// Option changes how a server is started.
type Option func(*config)

type config struct {
	persistent bool
	args       []string
}

// Persistent makes the server keep its data over Kill and Restart: every write
// is in the append-only file before its reply is sent.
func Persistent() Option {
	return func(c *config) { c.persistent = true }
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

// arguments is the command line of a server of this configuration.
func (c config) arguments() []string {
	args := []string{"--save", "", "--appendonly", "no"}
	if c.persistent {
		args = []string{"--save", "", "--appendonly", "yes"}
	}
	// A replica needs no seconds of grace for others to join its full sync.
	args = append(args, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
	return append(args, c.args...)
}
