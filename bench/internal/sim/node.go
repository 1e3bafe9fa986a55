package sim

// node is a server: one call after the other, in the order in which they reach it.
type node struct {
	script, quota, period int64 // nanoseconds; period 0: no quota
	phase                 int64 // when its periods begin

	free  int64 // when it has done all that has reached it
	which int64 // the period to which left belongs
	left  int64 // CPU time in it
	calls int64
}

// serve returns when a call that reaches the node at a time, and costs it more than
// others by extra, has been executed.
func (n *node) serve(at, extra int64) int64 {
	n.calls++
	start := max(at, n.free)
	if n.period == 0 {
		n.free = start + n.script + extra
		return n.free
	}
	if which := (start - n.phase) / n.period; which != n.which {
		n.which, n.left = which, n.quota
	}
	work := n.script + extra
	for work > n.left {
		work -= n.left
		n.which, n.left = n.which+1, n.quota
		start = n.phase + n.which*n.period
	}
	n.left -= work
	n.free = start + work
	return n.free
}
