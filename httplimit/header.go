package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
)

// describe sets the fields that tell of a decision.
func (m *middleware) describe(h http.Header, limiter Limiter, d *shardlimit.Decision) {
	reset := d.ResetAfter
	if !d.Allowed {
		reset = d.RetryAfter
		h.Set("Retry-After", seconds(max(reset, 1)))
	}
	if d.Degraded {
		return
	}
	policy := m.name + ";q=" + strconv.FormatInt(d.Limit, 10)
	if l, ok := limiter.(interface{ Limit() shardlimit.Limit }); ok {
		if per := l.Limit().Per; per%time.Second == 0 { // others cannot be expressed
			policy += ";w=" + seconds(per)
		}
	}
	h.Set("RateLimit-Policy", policy)
	h.Set("RateLimit", m.name+";r="+strconv.FormatInt(max(d.Remaining, 0), 10)+";t="+seconds(reset))
}

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) string {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return strconv.FormatInt(whole, 10)
}

// quoted is a string of RFC 9651 (structured fields).
func quoted(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			panic("httplimit: the name of a policy must be printable ASCII: " + strconv.Quote(s))
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
