package dispatch

import "sync/atomic"

// overload tells load that lasts from a burst: the age of the oldest ask tells that too late. See
// sendQueue.overdue.
type overload struct {
	rate     atomic.Int64 // how many were sent in a quarter of a call timeout
	sent     int64        // how many were since ratedAt
	ratedAt  int64
	emptied  int64        // when the last one was sent; far ahead if it has left otherwise
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

// begins notes that the queue is not empty any more since that time. It had rested if it was empty
// for longer than long. The queue's lock is held.
func (o *overload) begins(since, long int64) {
	if since-o.emptied > long {
		o.rested.Store(since)
	}
}

// sends notes how many a request takes along, perhaps the last. The rate is counted over each. A
// queue that is empty because nothing of it was sent does not rest. The queue's lock is held.
func (o *overload) sends(n int, last bool, now, each int64) {
	if last && n > 0 {
		o.emptied = now
	}
	if took := now - o.ratedAt; took >= each {
		if took < 2*each { // else nothing was sent for a while: that is no rate
			o.rate.Store(o.sent * each / took)
		}
		o.sent, o.ratedAt = 0, now
	}
	o.sent += int64(n)
}
