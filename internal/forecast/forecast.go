// Package forecast tells when permits are free together, and how to split them over shards. It is
// pure: times are numbers on a clock of the caller's choice.
package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// Outlook is what shards have free, and how that changes and when.
type Outlook struct {
	Free     int64
	Releases []Release // in order of time
}

// Release is permits that come back at a time; below 0: that are booked from then on.
type Release struct{ At, Permits int64 }

// Releases lists the changes of the permits that a shard has free, on the clock on which the look
// at it was received. room is the most that it holds. A booking in a fixed window takes permits
// when that window begins.
func Releases(free int64, found *script.PeekReply, received, room int64) (releases []Release) {
	left := found.Used
	change := func(at time.Duration) {
		if then := max(room-left, 0); then != free && at > 0 {
			releases = append(releases, Release{received + int64(at), then - free})
			free = then
		}
	}
	at := found.Closed
	for _, r := range found.Releases {
		if r.In > at {
			change(at)
		}
		if begins := r.In - found.Window; begins > at && room-left < free {
			change(begins)
		}
		left, at = left-r.Permits, max(at, r.In)
	}
	change(at)
	return releases
}

// Sort brings the releases into order: at one instant first what is taken, then what comes back.
func (o *Outlook) Sort() {
	slices.SortFunc(o.Releases, func(a, b Release) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Permits, b.Permits))
	})
}

// When is the time from which n permits are free together, 0 if they are now. ok is false if they
// never are.
func (o *Outlook) When(n int64) (at int64, ok bool) {
	free := o.Free
	if free >= n {
		return 0, true
	}
	for _, r := range o.Releases {
		if free += r.Permits; free >= n {
			return r.At, true
		}
	}
	return 0, false
}

// Offer is what one shard has to give to a reservation, and when.
type Offer struct {
	Outlook
	After  int64 // what is booked there already: nothing is booked before it
	Weight int64 // of the shard, when permits are split over several
}

// Soonest is when n permits can be booked. ok is false if they never can.
func (o *Offer) Soonest(n int64) (at int64, ok bool) {
	at, ok = o.When(n)
	return max(at, o.After), ok
}

// by is how many permits can be booked for an instant.
func (o *Offer) by(at int64) (n int64) {
	if at < o.After {
		return 0
	}
	n = o.Free
	for _, r := range o.Releases {
		if r.At <= at {
			n += r.Permits
		}
	}
	return n
}

// Split spreads n permits over shards for the earliest instant at which they have so many together:
// each gives its part by weight, as far as it has that then, and the first that have more give the
// rest. The parts are nil if there is no such instant.
func Split(offers []Offer, n int64) (parts []int64, at int64) {
	var all Outlook
	for i := range offers {
		o := &offers[i]
		all.Releases = append(all.Releases, Release{o.After, o.Free})
		for _, r := range o.Releases {
			all.Releases = append(all.Releases, Release{max(r.At, o.After), r.Permits})
		}
	}
	all.Sort()
	at, ok := all.When(n)
	if !ok {
		return nil, 0
	}
	parts, sum, left := make([]int64, len(offers)), 0.0, n
	for i := range offers {
		sum += float64(max(offers[i].Weight, 1))
	}
	for i := range offers {
		part := float64(n) * float64(max(offers[i].Weight, 1)) / sum // the product may be no int64
		parts[i] = min(offers[i].by(at), int64(part))
		left -= parts[i]
	}
	for i := range offers {
		more := min(offers[i].by(at)-parts[i], left)
		parts[i], left = parts[i]+more, left-more
	}
	return parts, at
}
