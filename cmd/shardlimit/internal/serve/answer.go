package serve

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// Answer is a decision as programs read it: that of POST /v1/allow, and of shardlimit allow --json.
// The names of its fields are a promise to programs. Times are in microseconds, rounded up.
type Answer struct {
	Allowed      bool  `json:"allowed"`
	Granted      int64 `json:"granted"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterUS int64 `json:"retry_after_us"`
	ResetAfterUS int64 `json:"reset_after_us"`
	DelayUS      int64 `json:"delay_us"`
	Degraded     bool  `json:"degraded"`
	Shadowed     bool  `json:"shadowed"`
	// Reason is shardlimit.Reason of a denial.
	Reason string `json:"reason,omitempty"`
}

// AnswerOf is what a decision comes to.
func AnswerOf(d shardlimit.Decision) Answer {
	return Answer{
		Allowed: d.Allowed, Granted: d.Granted, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfterUS: roundUp(d.RetryAfter), ResetAfterUS: roundUp(d.ResetAfter), DelayUS: roundUp(d.Delay),
		Degraded: d.Degraded, Shadowed: d.Shadowed, Reason: d.Reason.String(),
	}
}

func roundUp(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
