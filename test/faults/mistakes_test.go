package faults

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

var policies = []shardlimit.OutagePolicy{shardlimit.FailClosed, shardlimit.FailOpen, shardlimit.FailLocal,
	shardlimit.WaitOut}

// isMistake reports a call that did not end with an error that says what to do.
func isMistake(t *testing.T, what string, err error) {
	t.Helper()
	var mistake *shardlimit.ConfigError
	switch {
	case !errors.As(err, &mistake) || mistake.Node != "n" || mistake.Remedy == "" || mistake.Err == nil:
		t.Errorf("%s: %v", what, err)
	case errors.Is(err, shardlimit.ErrInvalidConfig) || errors.Is(err, shardlimit.ErrUnavailable):
		t.Errorf("%s: it passes for an outage: %v", what, err)
	}
}

// isAlwaysMistake checks that each call that opens a limit says what to do, whatever the outage
// policy, and by what words if there are some.
func isAlwaysMistake(t *testing.T, o rueidis.ClientOption, words string) {
	t.Helper()
	for _, policy := range policies {
		calls := limittest.Opens(alone(t, o).Client(t, limittest.OnOutage(policy)), "l")
		for _, what := range []string{"Limiter", "Family", "Slots", "Open", "OpenFamily"} { // the last two only read
			err := calls[what](t.Context())
			isMistake(t, what, err)
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%s does not say what is missing: %v", what, err)
			}
		}
	}
}

// A Config that no waiting mends is an error at once, whatever the outage policy.
func TestAMistakeIsNoOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
	s.Do(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-set")
	s.Do(t, "ACL", "SETUSER", "other", "on", ">secret", "~other:*", "+@all")
	replica := redistest.NewSentinel(t, 1)
	_, cluster := limittest.Clustered(t, 0)
	options := map[string]rueidis.ClientOption{}
	with := func(name string, change func(*rueidis.ClientOption)) {
		o := s.ClientOption()
		change(&o)
		options[name] = o
	}
	user := func(name, user, password string) {
		with(name, func(o *rueidis.ClientOption) { o.Username, o.Password = user, password })
	}
	at := func(name string, addrs ...string) {
		with(name, func(o *rueidis.ClientOption) {
			o.InitAddress, o.ForceSingleClient = addrs, len(addrs) == 1
		})
	}
	user("a wrong password", "app", "wrong")
	user("an unknown user", "nobody", "secret")
	user("no right to SET", "reader", "secret")
	user("no right to keys", "other", "secret")
	with("no such database", func(o *rueidis.ClientOption) { o.SelectDB = 99 })
	with("TLS to a plain port", func(o *rueidis.ClientOption) {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	})
	at("plain text to a port that answers with an alert", answering(t, "\x15\x03\x01\x00\x02\x02\x46"))
	at("a server of the web", answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n"))
	for _, r := range replica.Servers() {
		if r != replica.Master() {
			at("a replica", r.Addr())
		}
	}
	at("one node of a cluster", cluster.Addrs()[0])
	at("no cluster", s.Addr(), replica.Master().Addr())
	with("no such set", func(o *rueidis.ClientOption) {
		o.InitAddress, o.Sentinel.MasterSet = replica.Addrs(), "another"
	})
	if redistest.HasTLS(t) {
		encrypted := redistest.Standalone(t, redistest.TLS(t, redistest.NewCertificates(t))).ClientOption()
		with("TLS without a certificate", func(o *rueidis.ClientOption) {
			o.InitAddress, o.TLSConfig = encrypted.InitAddress, encrypted.TLSConfig.Clone()
			o.TLSConfig.Certificates = nil
		})
	}
	for name, option := range options {
		t.Run(name, func(t *testing.T) { isAlwaysMistake(t, option, "") })
	}
}

// A server that does not tell INFO has no name for its run: whether it forgot what it had cannot be
// known. Each call says so, whatever the outage policy. CONFIG is not needed.
func TestAServerWithoutINFOIsAMistake(t *testing.T) {
	t.Parallel()
	rules := []string{"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-config"}
	s := redistest.Standalone(t)
	s.Do(t, rules...)
	f, cluster := limittest.Clustered(t, 0)
	for _, s := range cluster.Servers() {
		s.Do(t, rules...)
	}
	for name, option := range map[string]rueidis.ClientOption{
		"a user": as(s.ClientOption()), "a cluster": as(f.Nodes[0].Redis),
		"renamed": redistest.Standalone(t, redistest.Args("--rename-command", "INFO", "")).ClientOption(),
	} {
		t.Run(name, func(t *testing.T) { isAlwaysMistake(t, option, "INFO") })
	}
}

// A right that is taken from a process in use may be one that only reads of records need, or only
// new keys: while others are served, those are told the mistake, and no policy lets them through.
// So it is if their own node is all right, and that of the record is not. Once the right is given
// back, they are served.
func TestARightIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-info", "-zadd", "-get", "-set", "-zadd of two of five"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			right, _, many := strings.Cut(right, " of ")
			f, servers := limittest.Independent(t, map[bool]int{false: 2, true: 5}[many])
			for i, s := range servers {
				s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
				f.Nodes[i].Redis = as(f.Nodes[i].Redis)
			}
			// Else, with the processor busy, a call ends before anybody has heard of the mistake.
			c := f.Client(t, limittest.OnOutage(shardlimit.FailOpen), limittest.PatientFor(time.Second))
			users := limittest.Family(t, c, "f", shardlimit.PerHour(1e6))
			const known = 16 // keys on both nodes
			for i := range known {
				limittest.MustGet(t, users.Limiter(fmt.Sprint(i)), 1)
			}
			at := limittest.RecordNodes(c)
			at = at[:len(at)/2+1]
			for _, name := range at {
				servers[f.Index(name)].Do(t, "ACL", "SETUSER", "app", right)
			}
			limittest.DoubtLayout(users.Limiter("0"))
			var told atomic.Int64
			var callers sync.WaitGroup
			for i := range 3 {
				callers.Go(func() {
					for k := range 100 {
						for _, key := range []string{fmt.Sprint(k % known), fmt.Sprint("new ", i, k)} {
							d, err := users.Limiter(key).Allow(t.Context())
							var mistake *shardlimit.ConfigError
							switch {
							case d.Degraded || err != nil && (!errors.As(err, &mistake) || !slices.Contains(at, mistake.Node)):
								t.Errorf("call %d for key %s: %+v, %v", k, key, d, err)
							case err != nil:
								told.Add(1)
							}
						}
						limittest.Pause(t.Context(), time.Millisecond)
					}
				})
			}
			if callers.Wait(); told.Load() == 0 {
				t.Error("nobody is told")
			}
			for _, name := range at {
				servers[f.Index(name)].Do(t, "ACL", "SETUSER", "app", "+"+right[1:])
			}
			limittest.AwaitThat(t, "new keys are served again", func() bool {
				granted, _ := limittest.AtOnce(t.Context(), users, 0, known)
				return !slices.Contains(granted, 0)
			})
		})
	}
}

// answering is the address of what gives every connection that speaks one answer, and ends it.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 1<<10))
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// Of a server that ends each connection the text of an outage says what may be behind that.
func TestAServerThatHangsUpIsExplained(t *testing.T) {
	t.Parallel()
	full := redistest.Standalone(t, redistest.Args("--maxclients", "1")).Addr()
	for addr, cause := range map[string]string{full: "ERR max number of clients reached",
		answering(t, ""): "it may want TLS, or have no connection left (maxclients)"} {
		f := alone(t, rueidis.ClientOption{InitAddress: []string{addr}})
		_, err := f.Client(t).Open(t.Context(), "l")
		if text := err.Error(); !errors.Is(err, shardlimit.ErrUnavailable) || strings.Contains(text, "\n") ||
			!strings.HasPrefix(text, "shardlimit: node n: ") ||
			!strings.Contains(text, cause) {
			t.Errorf("%v, want %q", err, cause)
		}
	}
}

// A password that is changed while the process runs is an error of each call, and no longer once it
// is put right.
func TestAMistakeIsMended(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
	f := alone(t, as(s.ClientOption()))
	var limiters []*shardlimit.Limiter
	for _, policy := range policies {
		l := f.Limiter(t, shardlimit.PerSecond(1000), limittest.OnOutage(policy))
		limittest.Served(t, l, 1)
		limiters = append(limiters, l)
	}
	s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">other")
	s.Do(t, "CLIENT", "KILL", "USER", "app")
	for _, l := range limiters {
		limittest.AwaitThat(t, "the mistake is told", func() bool {
			return errors.As(limittest.Err(l.Allow(t.Context())), new(*shardlimit.ConfigError))
		})
		calls := limittest.Calls(l, 1, shardlimit.Decision{})
		for _, what := range []string{"Allow", "Wait", "Reserve", "SetLimit", "Peek"} {
			isMistake(t, what, calls[what](t.Context()))
		}
	}
	s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">secret")
	for _, l := range limiters {
		limittest.AwaitThat(t, "it serves again", func() bool { return serves(t, l) })
	}
}

// A password is rotated: connections that are there go on, the next ones ask for the password that
// is right then.
func TestAPasswordIsRotated(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "+@all")
	var password atomic.Value
	password.Store("old")
	o := s.ClientOption()
	o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: "app", Password: password.Load().(string)}, nil
	}
	l := alone(t, o).Limiter(t, shardlimit.PerSecond(1000))
	s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
	for range 20 {
		limittest.MustGet(t, l, 1)
	}
	password.Store("new")
	s.Do(t, "CLIENT", "KILL", "USER", "app")
	var mistake *shardlimit.ConfigError
	limittest.AwaitThat(t, "it serves by a new connection", func() bool {
		d, err := l.Allow(t.Context())
		return errors.As(err, &mistake) || err == nil && d.Allowed
	})
	if mistake != nil {
		t.Errorf("the old password was used: %v", mistake)
	}
}

// One node that is listed wrongly does not make an outage of the others a mistake, from the first
// call on.
func TestAMistakeElsewhereHidesNoOutage(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 3)
	f.Nodes[2].Redis.Username, f.Nodes[2].Redis.Password = "nobody", "wrong"
	f.Punctual = true
	l := f.Limiter(t, shardlimit.Limit{Permits: 3000, Per: time.Hour, Shards: 3},
		limittest.OnOutage(shardlimit.FailOpen))
	for range 30 {
		limittest.MustGet(t, l, 1)
	}
	for _, s := range servers[:2] {
		s.Pause()
	}
	limittest.AwaitThat(t, "the policy answers", func() bool {
		d, err := l.Allow(t.Context())
		if err != nil {
			t.Error(err)
		}
		return d.Degraded || t.Failed()
	})
	for _, s := range servers[:2] {
		s.Resume()
	}
}

// An address leads to another server once that has become the master. The old master keeps its
// connections, as a replica: the process hangs up and dials anew.
func TestADemotedMasterIsDialledAnew(t *testing.T) {
	t.Parallel()
	old, next := redistest.Standalone(t), redistest.Standalone(t)
	proxy := redistest.NewProxy(t, old.Addr())
	o := old.ClientOption()
	o.InitAddress = []string{proxy.Addr()}
	l := alone(t, o).Limiter(t, shardlimit.PerSecond(1000), limittest.AfterLoss(shardlimit.Resume))
	limittest.MustGet(t, l, 1)
	proxy.Lead(next.Addr())
	host, port, _ := net.SplitHostPort(next.Addr())
	old.Do(t, "REPLICAOF", host, port)
	told := false
	limittest.AwaitThat(t, "the new master serves", func() bool {
		d, err := l.Allow(t.Context())
		told = told || errors.As(err, new(*shardlimit.ConfigError))
		return err == nil && d.Allowed
	})
	if told {
		t.Error("a demoted master passes for a mistake")
	}
}
