package httplimit

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/problem"
)

// Fields are the header fields that tell what is left of a limit. With all of them a refused
// request also has Retry-After.
type Fields int

const (
	// Draft is RateLimit-Policy and RateLimit, of draft-ietf-httpapi-ratelimit-headers.
	Draft Fields = iota
	// Triple is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, of the draft's
	// revisions up to 6; Reset is in seconds from now.
	Triple
	// XTriple is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset; Reset is in
	// seconds from now.
	XTriple
	// OpenAI is X-RateLimit-Limit-NAME, X-RateLimit-Remaining-NAME and X-RateLimit-Reset-NAME of
	// each policy, as OpenAI has them for "requests" and "tokens". Reset is until all is free,
	// such as 6m0s or 1.5s. A name that cannot be part of a field's is not told.
	OpenAI
	// NoFields is none.
	NoFields
)

// Names of fields as net/http keeps them. Set would make them anew for every request.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
	retryAfter      = "Retry-After"
)

// Describe sets the fields of a kind that tell of a decision about the limit of a policy, and
// Retry-After if it was refused: what a middleware of this package sets, for handlers that decide
// by themselves. It changes no other field, and must come before WriteHeader. A Decision of the
// outage policy has no fields but Retry-After, and that of a limit in Shadow or Off has none. The
// name "" of the policy means "default". It panics if p has no Limiter.
func Describe(h http.Header, f Fields, p Policy, d shardlimit.Decision) {
	p.Name = cmp.Or(p.Name, "default")
	m := &middleware{Options: Options{Fields: f, Policy: p.Name}}
	m.describe(h, p.Limiter, &d, 0)
}

// describe sets the fields that tell of a decision, which was made so long ago.
func (m *middleware) describe(h http.Header, limiter Limiter, d *shardlimit.Decision, ago time.Duration) {
	if !d.Allowed {
		h[retryAfter] = []string{strconv.FormatInt(seconds(max(d.RetryAfter, 1)), 10)}
	}
	if d.Degraded || lenient(d) {
		return
	}
	switch m.Fields {
	case Draft:
		var policies, states []string
		for _, one := range m.tell(limiter, d) {
			policy, state := one.draft(ago)
			policies, states = append(policies, policy), append(states, state)
		}
		if len(policies) > 0 {
			h[rateLimitPolicy] = []string{strings.Join(policies, ", ")}
			h[rateLimit] = []string{strings.Join(states, ", ")}
		}
	case Triple:
		three(h, "RateLimit-", "", d, strconv.FormatInt(seconds(until(d, ago)), 10))
	case XTriple:
		three(h, "X-RateLimit-", "", d, strconv.FormatInt(seconds(until(d, ago)), 10))
	case OpenAI:
		for _, one := range m.tell(limiter, d) {
			reset := max(0, one.said.ResetAfter-ago+time.Millisecond-1).Truncate(time.Millisecond)
			three(h, "X-RateLimit-", "-"+one.name, &one.said, reset.String())
		}
	}
}

// three sets the fields of a limit that has three.
func three(h http.Header, prefix, suffix string, d *shardlimit.Decision, reset string) {
	h.Set(prefix+"Limit"+suffix, strconv.FormatInt(d.Limit, 10))
	h.Set(prefix+"Remaining"+suffix, strconv.FormatInt(max(d.Remaining, 0), 10))
	h.Set(prefix+"Reset"+suffix, reset)
}

// told is what answers tell of one policy.
type told struct {
	name string
	per  time.Duration // 0: nobody knows
	said shardlimit.Decision
}

// tell returns what there is to tell of each policy: nothing of one that refuses nobody or failed,
// or was not asked and is not known.
func (m *middleware) tell(limiter Limiter, d *shardlimit.Decision) (each []told) {
	l, several := limiter.(*Policies)
	if !several {
		per := time.Duration(0)
		if one, can := limiter.(interface{ Limit() shardlimit.Limit }); can {
			per = one.Limit().Per
		}
		return []told{{m.Policy, per, *d}}
	}
	for i, said := range l.Each(*d) {
		if said.Limiter() != "" && !lenient(&said) && !undecided(&said) {
			each = append(each, told{l.all[i].Name, l.all[i].Limiter.Limit().Per, said})
		}
	}
	return each
}

// draft is a member of RateLimit-Policy and one of RateLimit. A window that is not whole seconds,
// or unknown, cannot be expressed.
func (t *told) draft(ago time.Duration) (policy, state string) {
	name := strconv.Quote(problem.Policy(t.name)) // RFC 9651 escapes printable ASCII as Go does
	policy = name + ";q=" + strconv.FormatInt(t.said.Limit, 10)
	if t.per > 0 && t.per%time.Second == 0 {
		policy += ";w=" + strconv.FormatInt(seconds(t.per), 10)
	}
	return policy, name + ";r=" + strconv.FormatInt(max(t.said.Remaining, 0), 10) +
		";t=" + strconv.FormatInt(seconds(until(&t.said, ago)), 10)
}

// lenient reports whether a limit refuses nobody. What it tells nobody needs to heed, and who did
// would be throttled by it.
func lenient(d *shardlimit.Decision) bool {
	return d.Mode() == shardlimit.Shadow || d.Mode() == shardlimit.Off
}

// until is when there is more under a limit: another try can succeed, a permit is free again, or
// all are. Who heeds that of the last permit shall not wait until all is free.
func until(d *shardlimit.Decision, ago time.Duration) time.Duration {
	reset := d.ResetAfter
	switch {
	case !d.Allowed:
		reset = d.RetryAfter
	case d.Remaining <= 0 && d.NextAfter > 0:
		reset = d.NextAfter
	}
	return max(0, reset-ago)
}

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
