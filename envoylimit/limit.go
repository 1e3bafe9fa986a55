package envoylimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

const (
	enforceTime = 10 * time.Second // for a change of a limit beside requests
	enforceMany = 8                // changes at once
)

// limit is the limit of a rule in this process. It is declared when it is first used, so that a
// configuration of many rules costs nothing to load.
type limit struct {
	service *Service
	rule    *rules.Rule
	want    shardlimit.Limit
	said    *rls.RateLimitResponse_RateLimit // in answers

	handle  atomic.Pointer[handle] // nil before it is declared
	settled atomic.Bool            // Redis has, or had once, what is wanted
	setting sync.Mutex
	noted   atomic.Pointer[noted] // the attributes used last
}

// handle is what a declared limit is asked by: a limiter, or one for each key.
type handle struct {
	one  *shardlimit.Limiter
	each *shardlimit.Family
}

func newLimit(s *Service, rule *rules.Rule) *limit {
	said := &rls.RateLimitResponse_RateLimit{RequestsPerUnit: rule.Requests, Name: rule.Name}
	said.Unit = rls.RateLimitResponse_RateLimit_Unit(
		rls.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(rule.Unit.String())])
	return &limit{
		service: s, rule: rule, said: said,
		want: shardlimit.Limit{Permits: int64(rule.Requests), Per: rule.Unit.Duration(), Algorithm: s.o.Algorithm},
	}
}

// id tells which limits are the same one under two configurations.
func (l *limit) id() string {
	if l.rule.Open {
		return "f:" + l.rule.ID
	}
	return "n:" + l.rule.ID
}

// after goes on with what a former configuration had, and reports whether the limit is another one.
func (l *limit) after(former map[string]*limit) (_ *limit, isNew bool) {
	was := former[l.id()]
	if was == nil || !l.asked() {
		return l, true
	}
	l.handle.Store(was.handle.Load())
	l.noted.Store(was.noted.Load())
	if was.asked() && was.want == l.want {
		l.settled.Store(was.settled.Load())
		return l, !l.settled.Load()
	}
	return l, true
}

// asked reports whether Redis decides.
func (l *limit) asked() bool { return !l.rule.Unlimited && l.rule.Requests > 0 }

// limiter is what decides about a key.
func (l *limit) limiter(ctx context.Context, key string) (*shardlimit.Limiter, error) {
	h := l.handle.Load()
	if h == nil {
		var err error
		if h, err = l.declare(ctx); err != nil {
			return nil, err
		}
	}
	if h.each != nil {
		return h.each.Limiter(bounded(key)), nil
	}
	return h.one, nil
}

func (l *limit) declare(ctx context.Context) (*handle, error) {
	h, name := &handle{}, bounded("envoy/"+l.rule.ID)
	var err error
	if l.rule.Open {
		h.each, err = l.service.client.Family(ctx, name, l.want)
	} else {
		h.one, err = l.service.client.Limiter(ctx, name, l.want)
	}
	if err != nil {
		return nil, err
	}
	l.handle.Store(h)
	return h, nil
}

func (h *handle) limit() shardlimit.Limit {
	if h.each != nil {
		return h.each.Limit()
	}
	return h.one.Limit()
}

// wanted reports whether the limit in force is the one of the configuration, as far as this process
// has heard.
func (l *limit) wanted(h *handle) bool {
	is := h.limit()
	return is.Permits == l.want.Permits && is.Per == l.want.Per && is.Algorithm == l.want.Algorithm
}

// heard is called when Redis has decided. The first time it makes sure, beside the request, that
// the limit is the one of the configuration, and not one that was stored before.
func (l *limit) heard(ctx context.Context) {
	if l.settled.Load() || !l.setting.TryLock() {
		return
	}
	if l.wanted(l.handle.Load()) {
		l.settled.Store(true)
		l.setting.Unlock()
		return
	}
	go func() {
		defer l.setting.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enforceTime)
		defer cancel()
		if err := l.set(ctx); err != nil {
			l.service.o.Logger.Warn("a limit could not be changed; it is tried again", "rule", l.rule.ID, "err", err)
		}
	}()
}

// set has Redis keep the limit of the configuration.
func (l *limit) set(ctx context.Context) error {
	var err error
	h := l.handle.Load()
	switch {
	case l.wanted(h):
	case h.each != nil:
		err = h.each.SetLimit(ctx, l.want)
	default:
		err = h.one.SetLimit(ctx, l.want)
	}
	if err != nil {
		return fmt.Errorf("envoylimit: the limit of %s is not changed yet: %w", l.rule.ID, err)
	}
	l.settled.Store(true)
	return nil
}

// enforceAll changes limits, a few at once.
func enforceAll(ctx context.Context, changed []*limit) error {
	errs := make([]error, len(changed))
	busy := make(chan struct{}, enforceMany)
	var wg sync.WaitGroup
	for i, l := range changed {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			l.setting.Lock()
			defer l.setting.Unlock()
			errs[i] = l.set(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bounded is a name or key of at most MaxName bytes. A longer one is known by its hash.
func bounded(name string) string {
	if len(name) <= shardlimit.MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "#" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(name[:shardlimit.MaxName-len(hash)], "") + hash
}
