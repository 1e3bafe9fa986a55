package httplimit

import (
	"errors"
	"net/http"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/problem"
)

// refusal is the problem of a request that a limit refused.
type refusal struct {
	problem.Details
	Policy     string   `json:"policy"`
	Violated   []string `json:"violated-policies"`
	RetryAfter int64    `json:"retry_after"` // seconds, as in Retry-After
	Reason     string   `json:"reason,omitempty"`
}

// refuse answers a request that a limit refused.
func (m *middleware) refuse(w http.ResponseWriter, r *http.Request, limiter Limiter, d *shardlimit.Decision) {
	if m.Denied != nil {
		m.Denied(w, r, *d)
		return
	}
	violated := []string{problem.Policy(m.Policy)}
	if l, ok := limiter.(*Policies); ok {
		if refused, _ := l.Refused(*d); len(refused) > 0 {
			violated = nil
			for _, policy := range refused {
				violated = append(violated, problem.Policy(policy.Name))
			}
		}
	}
	p := refusal{Details: problem.QuotaExceeded("too many requests"), Policy: violated[0],
		Violated: violated, RetryAfter: seconds(max(d.RetryAfter, 1)), Reason: d.Reason.String()}
	problem.Write(w, p.Status, p)
}

// failed answers a request about which nothing could be decided.
func failed(w http.ResponseWriter, _ *http.Request, err error) {
	status, detail := http.StatusBadRequest, "this request cannot be rated"
	switch {
	case errors.Is(err, shardlimit.ErrExceedsLimit):
		detail = "this request costs more than its whole limit"
	case errors.Is(err, shardlimit.ErrInvalidName):
		detail = "this request has no key to count it by"
	case errors.Is(err, shardlimit.ErrInvalidPermits):
	case errors.Is(err, shardlimit.ErrInvalidLimit), errors.Is(err, shardlimit.ErrInvalidConfig):
		status, detail = http.StatusInternalServerError, "this server has no limit that can be for this request"
	default:
		status, detail = http.StatusServiceUnavailable, "no decision about this request was possible"
	}
	problem.Write(w, status, problem.Of(status, detail))
}
