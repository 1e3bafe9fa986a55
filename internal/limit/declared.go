package limit

import "cmp"

// This file is about limits that code declares and that are not the ones in force: a stored limit
// wins unless the code's Revision is higher.

// admitsAs reports whether two limits admit the same.
func (l Limit) admitsAs(o Limit) bool {
	l.Burst, o.Burst = cmp.Or(l.Burst, l.Permits), cmp.Or(o.Burst, o.Permits)
	l.Shards, l.Revision, o.Shards, o.Revision = 0, 0, 0, 0
	return l == o
}

// Overruled tells the log, once, that a declaration is not what is in force.
func (c *Core) Overruled(declared, inForce Limit) {
	if c.Family != nil || declared.Revision > inForce.Revision || declared.admitsAs(inForce) ||
		!c.told.CompareAndSwap(false, true) {
		return
	}
	c.Process.Config.Logger.Warn("the limit that this code declares is not in force: another one is stored, and only a "+
		"higher Revision replaces that", "limiter", c.Name, "declared", declared.String(), "in force",
		inForce.String(), "revision", inForce.Revision)
}
