package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// safeOption sets what a limiter must not do without (see docs/design/decisions/redis-client.md).
func safeOption(o rueidis.ClientOption) rueidis.ClientOption {
	o.AlwaysPipelining = true // else a context's end closes the shared connection
	o.ConnLifetime = 0        // else an expiring connection re-sends what it has sent
	o.DisableAutoPipelining = false
	o.DisableCache = true
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = dialTimeout
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = connSilence
	}
	if o.Sentinel.MasterSet != "" && o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second // a missed +switch-master must not pin us
	}
	if o.ClusterOption.MaxMovedRedirections == 0 {
		// One is usual while slots migrate. Two masters that point at each other make
		// rueidis open a connection for every turn, so leave that to the breaker.
		o.ClusterOption.MaxMovedRedirections = 3
	}
	if o.DialFn == nil {
		o.DialCtxFn = detachedDial(o.DialCtxFn, o.Dialer.Timeout)
	}
	return o
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// detachedDial dials with a timeout of its own. rueidis dials with the context
// of whichever caller came first, so one caller's short deadline would fail the
// others that wait for the same connection.
func detachedDial(inner dialFunc, timeout time.Duration) dialFunc {
	if inner == nil {
		inner = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			network := "tcp"
			if strings.HasPrefix(addr, "/") {
				network = "unix"
			}
			if cfg != nil {
				return dialTLS(ctx, network, addr, d, cfg)
			}
			return d.DialContext(ctx, network, addr)
		}
	}
	return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return inner(ctx, addr, d, cfg)
	}
}

// demoted reports whether a server says that it is no master, or not yet: its address may lead to
// another server now.
func demoted(said string) bool {
	code, _, _ := strings.Cut(said, " ")
	return code == notMaster || code == "MASTERDOWN" || code == "LOADING"
}

// dialTLS does what tls.Dialer does, and tells of a server that talks plain text: a Redis without
// TLS waits for more than the client says first.
func dialTLS(ctx context.Context, network, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(lastWord, func() {
		if talksPlain(ctx, network, addr, d) {
			cancel(tls.RecordHeaderError{Msg: "the server answers in plain text"})
		}
	}).Stop()
	td := tls.Dialer{NetDialer: d, Config: cfg}
	conn, err := td.DialContext(ctx, network, addr)
	switch cause := context.Cause(ctx); {
	case err != nil && errors.As(cause, new(tls.RecordHeaderError)):
		return nil, cause
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*net.OpError)), hungUp(err):
		return nil, fmt.Errorf("%w in the TLS handshake: the port may not speak TLS", err)
	}
	return conn, err
}

// talksPlain reports whether a server answers what is not encrypted.
func talksPlain(ctx context.Context, network, addr string, d *net.Dialer) bool {
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	said := []byte("PING\r\n")
	_, _ = conn.Write(said)
	_, _ = conn.Read(said[:1])
	return said[0] == '+' || said[0] == '-'
}

// hungUp reports whether the server ended a connection.
func hungUp(err error) bool {
	op := (*net.OpError)(nil)
	return errors.Is(err, io.EOF) || errors.As(err, &op) && (op.Op == "read" || op.Op == "write") && !op.Timeout()
}
