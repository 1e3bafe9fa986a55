package main

import (
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

// outage is a time in which Redis does not answer. Its cause is told once; then a counter goes on,
// on paper ever more seldom; and at last how long it was.
type outage struct {
	since time.Time // zero: there is none
	told  time.Time // when the counter was told
	pause time.Duration
}

const (
	firstCounter = 5 * time.Second
	lastCounter  = time.Minute
)

// next takes in what is known at a time. news is worth a line of its own; counter is how long it
// has been, if that is to be told: always where the same line is written over and over.
func (o *outage) next(err error, now time.Time, often bool) (news, counter string) {
	if err == nil {
		if !o.since.IsZero() {
			news = "Redis is back after " + lasted(now.Sub(o.since))
		}
		*o = outage{}
		return news, ""
	}
	switch {
	case o.since.IsZero():
		*o = outage{since: now, told: now, pause: firstCounter}
		return "Redis does not answer, trying again: " + draw.Clip(oneLine(err), 300), ""
	case !often && now.Sub(o.told) < o.pause:
		return "", ""
	}
	o.told, o.pause = now, min(2*o.pause, lastCounter)
	return "", "no answer for " + lasted(now.Sub(o.since))
}

// lasts is how long it has lasted.
func (o *outage) lasts(now time.Time) time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return now.Sub(o.since)
}

// lasted is a time in whole seconds.
func lasted(d time.Duration) string { return draw.Span(max(d.Round(time.Second), time.Second)) }
