package script

import (
	"slices"
	"time"
)

// weigh fills in what a shard of a sliding log can give. Crests, of which start counts from now,
// there are if something is booked ahead.
func (p *PeekReply) weigh(crests []crest) {
	p.Beside = p.Behind()
	if len(crests) > 0 {
		p.foresee(crests)
	}
	if p.Closed == 0 {
		p.Free, p.Spare = max(min(p.Share, p.Target)-p.Beside[0].Permits, 0), max(p.Share-p.Used, 0)
	}
}

// measure fills in what a shard of another algorithm can give.
func (p *PeekReply) measure(beside []Load) {
	p.Spare, p.Beside = p.Free, beside
	if len(beside) == 0 {
		p.Beside = p.Behind()
	}
}

// Behind is what would stand beside takes if all that is booked ahead were in use already: a
// reservation goes behind it.
func (p *PeekReply) Behind() []Load {
	left := p.Used
	loads := append(make([]Load, 0, 1+len(p.Releases)), Load{Permits: left})
	for _, r := range p.Releases {
		left -= r.Permits
		loads = append(loads, Load{r.In, left})
	}
	return loads
}

// foresee finds what stands beside takes from now on: it changes with each release, and where the
// first window begins that ends with a booking.
func (p *PeekReply) foresee(crests []crest) {
	times := []int64{0}
	for _, c := range crests {
		times = append(times, max(c.start-p.us()+1, 0))
	}
	for _, r := range p.Releases {
		times = append(times, int64(r.In/time.Microsecond))
	}
	slices.Sort(times)
	p.Beside = nil
	for _, at := range slices.Compact(times) {
		load := p.besideAt(crests, at)
		if last := len(p.Beside) - 1; last < 0 || p.Beside[last].Permits != load {
			p.Beside = append(p.Beside, Load{duration(at), load})
		}
	}
}

// besideAt returns the most that any window holds in which a take lies so many microseconds from
// now: what is in it up to its crest, and after that what has not left.
func (p *PeekReply) besideAt(crests []crest, at int64) (most int64) {
	left := int64(0)
	for _, r := range p.Releases {
		if r.In <= duration(at) {
			left += r.Permits
		}
	}
	for _, c := range crests {
		if c.start-p.us() < at {
			most = max(most, min(c.held, c.upto-left))
		}
	}
	return most
}

func (p *PeekReply) us() int64 { return int64(p.Window / time.Microsecond) }
