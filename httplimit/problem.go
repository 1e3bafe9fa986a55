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

// denied answers a request that a limit refused.
func (m *middleware) denied(w http.ResponseWriter, limiter Limiter, d *shardlimit.Decision) {
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

func (m *middleware) failed(w http.ResponseWriter, _ *http.Request, err error) {
	status, detail := m.status(err), "no decision about this request was possible"
	switch status {
	case http.StatusBadRequest:
		detail = "this request cannot be rated"
		if errors.Is(err, shardlimit.ErrInvalidName) {
			detail = "this request has no key to count it by"
		}
	case http.StatusInternalServerError:
		detail = "this server has no limit that can be for this request"
	case http.StatusTooManyRequests:
		detail = "this request costs more than its whole limit"
	}
	problem.Write(w, status, problem.Of(status, detail))
}
