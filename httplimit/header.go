package httplimit

import (
	"cmp"
	"net/http"
	"strconv"
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
	m := &middleware{Options: Options{Fields: f, Policy: p.Name}, name: quoted(p.Name)}
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
		var room [128]byte
		text, policies := m.draft(room[:0], limiter, d, ago)
		values := [2]string{string(text[:policies]), string(text[policies:])}
		if values[0] != "" {
			h[rateLimitPolicy] = values[:1:1]
		}
		if values[1] != "" {
			h[rateLimit] = values[1:]
		}
	case Triple:
		three(h, "RateLimit-", "", d, strconv.FormatInt(seconds(until(d, ago)), 10))
	case XTriple:
		three(h, "X-RateLimit-", "", d, strconv.FormatInt(seconds(until(d, ago)), 10))
	case OpenAI:
		m.openAI(h, limiter, d, ago)
	}
}

// three sets the fields of a limit that has three.
func three(h http.Header, prefix, suffix string, d *shardlimit.Decision, reset string) {
	h.Set(prefix+"Limit"+suffix, strconv.FormatInt(d.Limit, 10))
	h.Set(prefix+"Remaining"+suffix, strconv.FormatInt(max(d.Remaining, 0), 10))
	h.Set(prefix+"Reset"+suffix, reset)
}

// openAI sets the three fields of each policy.
func (m *middleware) openAI(h http.Header, limiter Limiter, d *shardlimit.Decision, ago time.Duration) {
	names, each := []string{m.Policy}, []shardlimit.Decision{*d}
	if l, several := limiter.(*Policies); several {
		names, each = names[:0], l.Each(*d)
		for _, policy := range l.all {
			names = append(names, policy.Name)
		}
	}
	for i := range each {
		said := &each[i]
		if lenient(said) || !said.Allowed && said.RetryAfter == 0 { // the latter failed
			continue
		}
		reset := max(0, said.ResetAfter-ago+time.Millisecond-1).Truncate(time.Millisecond)
		three(h, "X-RateLimit-", "-"+names[i], said, reset.String())
	}
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

// draft appends RateLimit-Policy, which ends at policies, and RateLimit.
func (m *middleware) draft(text []byte, limiter Limiter, d *shardlimit.Decision,
	ago time.Duration) (_ []byte, policies int) {
	l, several := limiter.(*Policies)
	if !several {
		per := time.Duration(0)
		if one, can := limiter.(interface{ Limit() shardlimit.Limit }); can {
			per = one.Limit().Per
		}
		text = appendPolicy(text, m.name, d.Limit, per)
		policies = len(text)
		return appendState(text, m.name, d, ago), policies
	}
	each := l.Each(*d)
	for i := range each {
		if !lenient(&each[i]) {
			text = appendPolicy(comma(text, 0), l.names[i], each[i].Limit, l.all[i].Limiter.Limit().Per)
		}
	}
	policies = len(text)
	for i := range each {
		if said := &each[i]; !lenient(said) && (said.Allowed || said.RetryAfter > 0) { // else it failed
			text = appendState(comma(text, policies), l.names[i], said, ago)
		}
	}
	return text, policies
}

// comma parts a member of a list that begins there from those before.
func comma(text []byte, begin int) []byte {
	if len(text) == begin {
		return text
	}
	return append(text, ", "...)
}

// appendPolicy appends one policy. A window that is not whole seconds, or unknown, cannot be
// expressed.
func appendPolicy(text []byte, name string, permits int64, per time.Duration) []byte {
	text = append(append(text, name...), ";q="...)
	text = strconv.AppendInt(text, permits, 10)
	if per > 0 && per%time.Second == 0 {
		text = append(text, ";w="...)
		text = strconv.AppendInt(text, int64(per/time.Second), 10)
	}
	return text
}

// appendState appends what is left under one policy, and until when.
func appendState(text []byte, name string, d *shardlimit.Decision, ago time.Duration) []byte {
	text = append(append(text, name...), ";r="...)
	text = strconv.AppendInt(text, max(d.Remaining, 0), 10)
	text = append(text, ";t="...)
	return strconv.AppendInt(text, seconds(until(d, ago)), 10)
}

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

// quoted is the name of a policy as a string of RFC 9651 (structured fields), which escapes
// printable ASCII as Go does.
func quoted(name string) string { return strconv.Quote(problem.Policy(name)) }
