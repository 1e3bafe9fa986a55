package sim

// what happens at an event.
type what uint8

const (
	arrive   what = iota // a call, or the time when a shard is open again, by the process' own plan
	comeback             // callers of a closed loop call again
	reach                // a batch reaches its node
	answer               // its reply reaches the process
	inspect              // the observer looks
)

// event is something that happens to a process, or to one of its lanes.
type event struct {
	at      int64 // nanoseconds
	process int32
	n       int32 // comeback: callers; arrive: the plan's number
	place   uint8 // reach, answer: which lane
	what    what
}

// agenda is the events to come: a binary heap, earliest first. Events of the
// same time come in an order that depends on nothing but what was put in.
type agenda struct{ events []event }

func (a *agenda) put(e event) {
	a.events = append(a.events, e)
	i := len(a.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if a.events[parent].at <= e.at {
			break
		}
		a.events[i] = a.events[parent]
		i = parent
	}
	a.events[i] = e
}

// next takes the earliest event out; ok is false if there is none.
func (a *agenda) next() (first event, ok bool) {
	if len(a.events) == 0 {
		return event{}, false
	}
	first = a.events[0]
	last := len(a.events) - 1
	e := a.events[last]
	a.events = a.events[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && a.events[child+1].at < a.events[child].at {
			child++
		}
		if e.at <= a.events[child].at {
			break
		}
		a.events[i] = a.events[child]
		i = child
	}
	if last > 0 {
		a.events[i] = e
	}
	return first, true
}
