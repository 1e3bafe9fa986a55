package dispatch

import "sync/atomic"

// overload is what tells load that lasts above what can be sent from a burst. Where much more comes
// than can be sent, the age of the oldest tells that too late. Then no more may wait than leaves
// the queue in a quarter of a call timeout, or in two if the node is near.
type overload struct {
	line     atomic.Int64 // how many wait
	pace     atomic.Int64 // how many left the queue in a quarter of a call timeout
	left     int64        // how many did since pacedAt
	pacedAt  int64
	emptied  int64        // when the last one left it
	rested   atomic.Int64 // until when it was empty for a while
	shed     atomic.Int64 // when a call was shed last
	shedding atomic.Int64 // since when calls are, without a pause of a call timeout
}

// sheds notes that a call is shed.
func (o *overload) sheds(now, timeout int64) {
	last := o.shed.Load()
	if last == 0 || now-last > timeout {
		o.shedding.Store(now)
	}
	if last == 0 || now-last > timeout/spots { // very many are
		o.shed.Store(now)
	}
}

// lasts reports whether calls have been shed for a call timeout, without a pause as long as that,
// and the queue was never empty for a while. Between bursts that can be served it is.
func (o *overload) lasts(now, timeout int64) bool {
	return now-o.shed.Load() <= timeout && now-o.shedding.Load() > timeout && now-o.rested.Load() > timeout
}

// begins notes that the queue is not empty any more, from that time on. It had rested if it was
// empty for as long. The lock of the queue is held.
func (o *overload) begins(since, long int64) {
	if since-o.emptied > long {
		o.rested.Store(since)
	}
}

// leaves notes that one has left the queue, in which so many still wait. each is the time that the
// pace is counted for. The lock of the queue is held.
func (o *overload) leaves(line int, now, each int64) {
	if o.line.Store(int64(line)); line == 0 {
		o.emptied = now
	}
	if took := now - o.pacedAt; took >= each {
		if took < 2*each { // else nothing left for a while: that is no pace
			o.pace.Store(o.left * each / took)
		}
		o.left, o.pacedAt = 0, now
	}
	o.left++
}
