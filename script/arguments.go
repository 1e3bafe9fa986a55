package script

import (
	"strconv"
	"time"
)

// proposed appends what the script is told of the proposal: see slidinglog_settle.lua.
func (r *TakeRequest) proposed(args []string) []string {
	p, flags, known := r.Proposal, r.flags(), r.known()
	terms := p.termsTexts[flags]
	if known != enough(p.lasts) || r.Deadline != 0 {
		now := told{p, flags, known, r.Deadline}
		if r.told != now {
			r.told, r.toldText = now, p.terms(flags, known, r.Deadline)
		}
		terms = r.toldText
	}
	return append(args, p.layoutText, terms)
}

func (r *TakeRequest) arguments(args []string) []string {
	args = append(r.proposed(args), r.asks())
	if r.Gift.Permits > 0 {
		args = append(args, r.Gift.text())
	}
	return args
}

// asks is who wants what: see fair.lua. Who asks alone, or with few, often asks the same again.
func (r *TakeRequest) asks() string {
	var room [4 + 2*(13+13+3) + 16 + 5 + 7 + 2*16]byte // most requests have one or two groups, of one participant
	text, reports := padded(room[:0], int64(len(r.Groups)), 3), r.reports()
	if reports {
		text = append(text, '1')
	} else {
		text = append(text, '0')
	}
	for _, group := range r.Groups {
		text = padded(padded(padded(text, group.Size, 13), group.Count, 13), int64(group.Seat), 3)
	}
	for i := range r.Seats {
		seat := &r.Seats[i]
		text = padded(padded(append(text, seat.ID...), int64(seat.Slot), 5), seat.Weight, 7)
		if reports {
			text = padded(padded(text, seat.Turned, 16), seat.Waiting, 16)
		}
	}
	if string(text) != r.said {
		r.said = string(text)
	}
	return r.said
}

// padded appends a number, with blanks before it. It must fit.
func padded(text []byte, n int64, width int) []byte {
	const blanks = "                "
	var room [20]byte
	digits := strconv.AppendInt(room[:0], n, 10)
	text = append(text, blanks[:width-len(digits)]...)
	return append(text, digits...)
}

// reports tells whether any participant has demand that is not in the groups.
func (r *TakeRequest) reports() bool {
	for i := range r.Seats {
		if r.Seats[i].Turned > 0 || r.Seats[i].Waiting > 0 {
			return true
		}
	}
	return false
}

func (r *TakeRequest) flags() (flags int) {
	if r.Seen {
		flags = 1
	}
	if r.Proposal.quarantine {
		flags += 2
	}
	return flags
}

// known returns Known in microseconds, cut off where more of it changes nothing.
func (r *TakeRequest) known() int64 {
	return min(max(int64(r.Known/time.Microsecond), 0), enough(r.Proposal.lasts))
}

// told is what the text of the terms depends on. A request that is sent again and again need not allocate it.
type told struct {
	proposal        *Proposal
	flags           int
	known, deadline int64
}

// late reports whether the proposal creates no state at this time of the node, in microseconds.
func (r *TakeRequest) late(now int64) bool {
	p := r.Proposal
	return p.epoch == 0 || p.floor > 0 && (r.Deadline < 0 || r.Deadline > 0 && now > r.Deadline)
}
