package sim

// node is a server: one call after the other, in the order in which they reach it.
type node struct {
	script, quota, period int64 // nanoseconds; period 0: no quota
	phase                 int64 // when its periods begin

	free  int64 // when it has done all that has reached it
	turn  int64 // the period to which left belongs
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
	if turn := (start - n.phase) / n.period; turn != n.turn {
		n.turn, n.left = turn, n.quota
	}
	work := n.script + extra
	for work > n.left {
		work -= n.left
		n.turn, n.left = n.turn+1, n.quota
		start = n.phase + n.turn*n.period
	}
	n.left -= work
	n.free = start + work
	return n.free
}
