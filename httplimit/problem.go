package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// problem is a problem detail of RFC 9457. Without a type it is about:blank, and its title is that
// of the status.
type problem struct {
	Type       string   `json:"type,omitempty"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Detail     string   `json:"detail"`
	Policy     string   `json:"policy,omitempty"`
	Violated   []string `json:"violated-policies,omitempty"`
	RetryAfter int64    `json:"retry_after,omitempty"` // seconds, as in Retry-After
	Reason     string   `json:"reason,omitempty"`      // of a refusal
}

// quotaExceeded is the type that the draft of the RateLimit fields has for refused requests.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

const tooMany = "too many requests"

// denied answers a request that a limit refused.
func (m *middleware) denied(w http.ResponseWriter, limiter Limiter, d *shardlimit.Decision) {
	p := problem{Type: quotaExceeded, Title: "The quota of a policy is exceeded", Status: http.StatusTooManyRequests,
		Detail: tooMany, Policy: m.Policy, Violated: []string{m.Policy}, RetryAfter: seconds(max(d.RetryAfter, 1)),
		Reason: d.Reason.String()}
	if l, ok := limiter.(*Policies); ok {
		if refused := l.refused(*d); len(refused) > 0 {
			p.Policy, p.Violated = refused[0], refused
		}
	}
	m.answer(w, p)
}

func (m *middleware) failed(w http.ResponseWriter, _ *http.Request, err error) {
	p := problem{Status: m.status(err), Detail: "no decision about this request was possible"}
	switch p.Status {
	case http.StatusBadRequest:
		p.Detail = "this request cannot be rated"
		if errors.Is(err, shardlimit.ErrInvalidName) {
			p.Detail = "this request has no key to count it by"
		}
	case http.StatusInternalServerError:
		p.Detail = "this server has no limit that can be for this request"
	case http.StatusTooManyRequests:
		p.Detail = "this request costs more than its whole limit"
	}
	m.answer(w, p)
}

// answer tells of a problem, as JSON or in a line of text.
func (m *middleware) answer(w http.ResponseWriter, p problem) {
	if !m.Problem {
		http.Error(w, p.Detail, p.Status)
		return
	}
	if p.Type == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // cannot be: it is text and numbers
		body = nil
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
