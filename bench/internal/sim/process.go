package sim

import (
	"math/bits"
	"math/rand/v2"
)

// process is a client of the limit.
type process struct {
	id    string  // by which ledgers know it
	order []uint8 // shards in the order of preference
	lanes []*lane // by the same order; nil until used
	rate  float64 // of its Poisson stream, a nanosecond; 0 in a closed loop
	since int64   // up to when its arrivals have been counted
	lazy  bool    // arrivals since then wait or are denied, and can be counted later
	plan  int32   // number of the arrive event that is valid
	unmet int64   // permits that it wanted and was finally denied
	all   uint64  // every place, as a set of bits
	shut  uint64  // the places that were shut when last looked at
	opens int64   // no place of shut opens before; 0 if there is none
}

// lane returns a lane, which it makes if need be.
func (p *process) lane(place int) *lane {
	if p.lanes[place] == nil {
		p.lanes[place] = &lane{slot: -1}
	}
	return p.lanes[place]
}

// open returns the places that are not known to be empty, as a set of bits.
// Time must not run backwards by more than the instant that catchUp needs.
func (p *process) open(now int64) uint64 {
	if p.shut != 0 && now >= p.opens {
		shut := p.shut
		p.shut, p.opens = 0, 0
		for ; shut != 0; shut &= shut - 1 {
			place := bits.TrailingZeros64(shut)
			p.close(place, now)
		}
	}
	return ^p.shut & p.all
}

// close notes until when a lane is shut, if that is after now.
func (p *process) close(place int, now int64) {
	until := p.lanes[place].until()
	if until <= now {
		if p.shut &^= 1 << place; p.shut == 0 {
			p.opens = 0
		}
		return
	}
	if p.shut == 0 || until < p.opens {
		p.opens = until
	}
	p.shut |= 1 << place
}

// candidates are the places of the lanes that a call may go to: the first ones in the
// order, or, if it spills because one of these is of no use, all that are open and have
// not refused it.
func (p *process) candidates(now int64, done uint64, preferred int, places []int) (found []int, spills bool) {
	places = places[:0]
	left := p.open(now) &^ done
	first := uint64(1)<<min(preferred, len(p.order)) - 1
	if spills = left&first != first; !spills {
		left = first
	}
	for ; left != 0; left &= left - 1 {
		places = append(places, bits.TrailingZeros64(left))
	}
	return places, spills
}

// poisson draws from the distribution with this mean, exactly, in time
// proportional to it.
func poisson(rng *rand.Rand, mean float64) (n int64) {
	for left := mean; ; n++ {
		if left -= rng.ExpFloat64(); left < 0 {
			return n
		}
	}
}
