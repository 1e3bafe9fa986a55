package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
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
	// NoFields is none.
	NoFields
)

// Names of fields as net/http keeps them. Set would make them anew for every request.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
	retryAfter      = "Retry-After"
)

var triples = map[Fields][3]string{
	Triple:  {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
	XTriple: {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
}

// describe sets the fields that tell of a decision.
func (m *middleware) describe(h http.Header, limiter Limiter, d *shardlimit.Decision) {
	reset := d.ResetAfter
	if !d.Allowed {
		reset = d.RetryAfter
		h[retryAfter] = []string{strconv.FormatInt(seconds(max(reset, 1)), 10)}
	}
	if d.Degraded || m.Fields == NoFields {
		return
	}
	left := max(d.Remaining, 0)
	if m.Fields != Draft {
		values := []string{strconv.FormatInt(d.Limit, 10), strconv.FormatInt(left, 10),
			strconv.FormatInt(seconds(reset), 10)}
		for i, field := range triples[m.Fields] {
			h[field] = values[i : i+1 : i+1]
		}
		return
	}
	var room [128]byte
	text := m.policies(room[:0], limiter, d)
	policies := len(text)
	text = m.state(text, limiter, d, reset)
	values := [2]string{string(text[:policies]), string(text[policies:])}
	if values[0] != "" {
		h[rateLimitPolicy] = values[:1:1]
	}
	if values[1] != "" {
		h[rateLimit] = values[1:]
	}
}

// policies appends RateLimit-Policy.
func (m *middleware) policies(text []byte, limiter Limiter, d *shardlimit.Decision) []byte {
	switch l := limiter.(type) {
	case *Policies:
		for i, policy := range l.all {
			if i > 0 {
				text = append(text, ", "...)
			}
			limit := policy.Limiter.Limit()
			text = appendPolicy(text, l.names[i], limit.Permits, limit.Per)
		}
		return text
	case interface{ Limit() shardlimit.Limit }:
		return appendPolicy(text, m.name, d.Limit, l.Limit().Per)
	}
	return appendPolicy(text, m.name, d.Limit, 0)
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

// state appends RateLimit.
func (m *middleware) state(text []byte, limiter Limiter, d *shardlimit.Decision, reset time.Duration) []byte {
	name, timed := m.name, true
	if l, ok := limiter.(*Policies); ok {
		i := l.decisive(d)
		if i < 0 {
			return text
		}
		name, timed = l.names[i], !d.Allowed
	}
	text = append(append(text, name...), ";r="...)
	text = strconv.AppendInt(text, max(d.Remaining, 0), 10)
	if timed {
		text = append(text, ";t="...)
		text = strconv.AppendInt(text, seconds(reset), 10)
	}
	return text
}

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

// quoted is a string of RFC 9651 (structured fields).
func quoted(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			panic("httplimit: the name of a policy must be printable ASCII: " + strconv.Quote(s))
		}
		plain = plain && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		return `"` + s + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
