package script

import (
	"cmp"
	"slices"
)

// returns is what a token bucket knows of its refunds: tokenbucket.lua explains it.
type returns struct {
	// us of refill that refunds have taken off the date so far, and parts of one over the share
	returned, returnedPart int64
	notes                  []giveBack // by receipt, ascending; never changed in place, as copies of the state share it
}

// giveBack is how many permits of the grants with a receipt were given back.
type giveBack struct{ receipt, permits int64 }

const (
	manyReturned  = 1_000_000_000_000_000
	mostReturned  = 4 * manyReturned
	mostNotes     = 16
	mostGivenBack = 9_999_999_999_999
)

// settle forgets what no receipt so far can gain from, as the bucket is full.
func (r *returns) settle() {
	if r.returnedPart > 0 {
		r.returned, r.returnedPart = r.returned+1, 0
	}
	if r.returned > manyReturned { // receipts from before are larger than any to come
		r.returned = 0
	}
	r.notes = nil
}

// leave makes all receipts so far worth nothing.
func (t *tokenBucket) leave(f *frame) {
	t.returned += t.full() - f.now
	if t.returnedPart > 0 {
		t.returned, t.returnedPart = t.returned+1, 0
	}
	t.notes = nil
}

// sum returns date + returned, and parts of a microsecond.
func (r *returns) sum(date, part, share int64) (us, rest int64) {
	us, rest = date+r.returned, part+r.returnedPart
	if rest >= share && rest > 0 {
		us, rest = us+1, rest-share
	}
	return us, rest
}

// stamp is sum, rounded up.
func (r *returns) stamp(date, part, share int64) int64 {
	us, rest := r.sum(date, part, share)
	if rest > 0 {
		us++
	}
	return us
}

// moveOn notes that the date was taken back by so many us and parts.
func (r *returns) moveOn(us, part, share int64) {
	r.returned, r.returnedPart = r.returned+us, r.returnedPart+part
	if r.returnedPart < 0 {
		r.returned, r.returnedPart = r.returned-1, r.returnedPart+share
	}
	if r.returnedPart >= share {
		r.returned, r.returnedPart = r.returned+1, r.returnedPart-share
	}
}

// since returns how many permits were granted after the grant with this receipt, and not given
// back: at least as many as there were. The sum that is now is us + part/share.
func (r *returns) since(f *frame, us, part, at int64) int64 {
	if at > us && (at > us+1 || part == 0) {
		return far
	}
	us, part = us-at+1, part-1
	if part < 0 {
		us, part = us-1, part+f.share
	}
	if us >= far || float64(f.share)*float64(us)/float64(f.window) >= far {
		return far
	}
	permits, _ := mulDiv(f.share, us, part, f.window)
	for _, n := range r.notes {
		if n.receipt > at {
			permits -= n.permits
		}
	}
	return max(permits, 0)
}

// note remembers what was given back. Where there is no room for one more, the two oldest are put
// together: what was granted between them may get less back.
func (r *returns) note(at, permits int64) {
	if permits == 0 {
		return
	}
	r.notes = slices.Clone(r.notes)
	i, found := r.find(at)
	if found {
		r.notes[i].permits = min(r.notes[i].permits+permits, mostGivenBack)
		return
	}
	if len(r.notes) == mostNotes {
		r.notes[1] = giveBack{r.notes[0].receipt, min(r.notes[0].permits+r.notes[1].permits, mostGivenBack)}
		r.notes = r.notes[1:]
		i, _ = r.find(at)
	}
	r.notes = slices.Insert(r.notes, i, giveBack{at, permits})
}

func (r *returns) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(r.notes, at, func(n giveBack, at int64) int { return cmp.Compare(n.receipt, at) })
}
