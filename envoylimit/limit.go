package envoylimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// enforceTime is how long changes of limits beside requests may take.
const enforceTime = 10 * time.Second

// limit is the limit of a rule in this process. It is declared when it is first used, so that a
// configuration of many rules costs nothing to load.
type limit struct {
	service *Service
	rule    *rules.Rule
	want    shardlimit.Limit
	said    *rls.RateLimitResponse_RateLimit // in answers

	brought bool        // by a request, whose calls bring it to the family of overrides
	handle  *handle     // shared with the limits of former configurations
	settled atomic.Bool // Redis has, or had once, what is wanted
}

// handle is how a limit is asked, whatever configuration wants it.
type handle struct {
	declared atomic.Pointer[declared] // nil before that
	setting  sync.Mutex
}

// declared is a limit on Redis: a *shardlimit.Limiter, or a *shardlimit.Family of one for each key.
type declared interface {
	Limit() shardlimit.Limit
	SetLimit(ctx context.Context, limit shardlimit.Limit) error
}

func newLimit(s *Service, rule *rules.Rule) *limit {
	said := &rls.RateLimitResponse_RateLimit{RequestsPerUnit: rule.Requests, Name: rule.Name}
	said.Unit = rls.RateLimitResponse_RateLimit_Unit(
		rls.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(rule.Unit.String())])
	return &limit{
		service: s, rule: rule, said: said, handle: &handle{},
		want: shardlimit.Limit{Permits: int64(rule.Requests), Per: rule.Window, Algorithm: s.o.Algorithm},
	}
}

// id tells which limits are the same one under two configurations.
func (l *limit) id() string {
	if l.rule.Open {
		return "f:" + l.rule.ID
	}
	return "n:" + l.rule.ID
}

// follow goes on with what a former configuration had.
func (l *limit) follow(was *limit) {
	l.handle = was.handle
	l.settled.Store(was.asked() && was.want == l.want && was.settled.Load())
}

// changed reports whether Redis may have another limit than is wanted, and can be told.
func (l *limit) changed() bool {
	return l.asked() && !l.settled.Load() && l.handle.declared.Load() != nil
}

// asked reports whether Redis decides.
func (l *limit) asked() bool { return !l.rule.Unlimited && l.rule.Requests > 0 }

// limiter is what decides about a key.
func (l *limit) limiter(ctx context.Context, key string) (*shardlimit.Limiter, error) {
	if l.handle.declared.Load() == nil {
		if err := l.declare(ctx); err != nil {
			return nil, err
		}
	}
	d := *l.handle.declared.Load()
	family, keyed := d.(*shardlimit.Family)
	switch {
	case l.brought:
		return family.LimiterWith(adapter.Bounded(key), l.want), nil
	case keyed:
		return family.Limiter(adapter.Bounded(key)), nil
	}
	one, _ := d.(*shardlimit.Limiter) // there is nothing else
	return one, nil
}

func (l *limit) declare(ctx context.Context) (err error) {
	var d declared
	name, want := adapter.Bounded("envoy/"+l.rule.ID), l.want
	if l.brought {
		want.Permits = 1 // of keys that bring no limit: there are none
	}
	if l.rule.Open {
		d, err = l.service.client.Family(ctx, name, want)
	} else {
		d, err = l.service.client.Limiter(ctx, name, want)
	}
	if err == nil {
		l.handle.declared.Store(&d)
	}
	return err
}

// wanted reports whether the limit in force is the one of the configuration, as far as this process
// has heard.
func (l *limit) wanted() bool {
	is := (*l.handle.declared.Load()).Limit()
	return is.Permits == l.want.Permits && is.Per == l.want.Per && is.Algorithm == l.want.Algorithm
}

// heard is called when Redis has decided. The first time it makes sure, beside the request, that
// the limit is the one of the configuration, and not one that was stored before.
func (l *limit) heard(ctx context.Context) {
	if l.brought || l.settled.Load() || !l.handle.setting.TryLock() {
		return
	}
	go func() {
		defer l.handle.setting.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enforceTime)
		defer cancel()
		if err := l.set(ctx); err != nil {
			l.service.o.Logger.Warn("a limit could not be changed; it is tried again", "rule", l.rule.ID, "err", err)
		}
	}()
}

// set has Redis keep the limit of the configuration, in the mode that it has: configurations know
// none. A request that came before the configuration was replaced changes nothing any more.
// handle.setting is held.
func (l *limit) set(ctx context.Context) error {
	if l.service.live.Load().limits[l.rule] != l {
		return nil
	}
	if d, want := *l.handle.declared.Load(), l.want; !l.wanted() {
		want.Mode = d.Limit().Mode
		if err := d.SetLimit(ctx, want); err != nil {
			return fmt.Errorf("envoylimit: the limit of %s is not changed yet: %w", l.rule.ID, err)
		}
	}
	l.settled.Store(true)
	return nil
}
