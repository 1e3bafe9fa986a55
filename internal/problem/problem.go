// Package problem answers HTTP requests with problem details (RFC 9457).
package problem

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Details are what each problem tells. Other members go beside them, in a struct around this one.
type Details struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Of returns the details of a problem that its status says all about.
func Of(status int, detail string) Details {
	return Details{"about:blank", http.StatusText(status), status, detail}
}

// QuotaExceeded returns those of a request that a limit refused, as the draft of the RateLimit
// fields has them.
func QuotaExceeded(detail string) Details {
	return Details{"https://iana.org/assignments/http-problem-types#quota-exceeded",
		"The quota of a policy is exceeded", http.StatusTooManyRequests, detail}
}

// Write answers with a problem: Details, or a struct that embeds them.
func Write(w http.ResponseWriter, status int, problem any) {
	h := w.Header()
	h.Del("Content-Length") // as http.Error does
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem) // the client has gone
}

// Policy returns the name of a policy as problems and header fields tell it. A string of RFC 9651
// has printable ASCII only: a name with other bytes has those percent-encoded, and each %, too.
func Policy(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return name
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
