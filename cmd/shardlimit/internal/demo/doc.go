// Package demo shows a limit at work: embedded Redis nodes, a fleet of unequal
// workers that want more than there is, a limit that changes and a node that
// goes away and comes back on the way, and at the end a verdict from the
// recorded history.
package demo
