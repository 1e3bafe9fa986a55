package httplimit

import (
	"encoding/json"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// problem is a problem detail of RFC 9457. Its type is about:blank, so that its title is that of
// the status.
type problem struct {
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Policy     string `json:"policy,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"` // seconds, as in Retry-After
}

const tooMany = "too many requests"

func (m *middleware) denied(w http.ResponseWriter, _ *http.Request, d shardlimit.Decision) {
	m.answer(w, problem{Status: http.StatusTooManyRequests, Detail: tooMany, Policy: m.Policy,
		RetryAfter: seconds(max(d.RetryAfter, 1))})
}

func (m *middleware) failed(w http.ResponseWriter, _ *http.Request, err error) {
	p := problem{Status: m.status(err), Detail: "no decision about this request was possible"}
	switch p.Status {
	case http.StatusBadRequest:
		p.Detail = "this request cannot be rated"
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
	p.Title = http.StatusText(p.Status)
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
