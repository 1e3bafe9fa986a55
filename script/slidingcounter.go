package script

const (
	maxCells = 32 // with so many, no cell opens any more
	cellPart = 16 // a cell takes grants for a window divided by this
)

// slidingCounter is the Go twin of slidingcounter.lua.
type slidingCounter struct {
	total  int64 // permits in the cells
	opened int64 // when the newest cell opened; 0: it is closed
	since  int64 // what was granted earlier is forgotten
	count  int   // cells in use, oldest first
	cells  [maxCells]counterCell
}

// counterCell is a number of permits, counted as if all had been granted with the newest of them.
type counterCell struct{ date, permits int64 }

func (c *slidingCounter) begin(f *frame) { *c = slidingCounter{since: f.now} }

func (c *slidingCounter) advance(f *frame) {
	gone := 0
	for gone < c.count && c.cells[gone].date <= f.now-f.window {
		c.total -= c.cells[gone].permits
		gone++
	}
	if gone > 0 {
		c.since = c.cells[gone-1].date + 1
	}
	c.drop(0, gone)
}

// drop removes n cells from index i on.
func (c *slidingCounter) drop(i, n int) {
	if n == 0 {
		return
	}
	copy(c.cells[i:], c.cells[i+n:c.count])
	clear(c.cells[c.count-n : c.count])
	c.count -= n
}

func (c *slidingCounter) regrid(f *frame, _ int64) { c.advance(f) }
func (c *slidingCounter) retire(*frame)            {}
func (c *slidingCounter) reshape(*frame)           {}
func (c *slidingCounter) held(*frame) int64        { return c.total }
func (c *slidingCounter) used(*frame) int64        { return c.total }
func (c *slidingCounter) free(f *frame) int64      { return max(f.share-c.total, 0) }
func (c *slidingCounter) overdraw(f *frame, n, _ int64) int64 {
	return overdrawn(n, max(f.share, f.target), c.total)
}
func (c *slidingCounter) pace(*frame) (int64, int64) { return 0, 0 }

// past returns the number of cells that are not booked ahead.
func (c *slidingCounter) past(f *frame) int {
	n := c.count
	for n > 0 && c.cells[n-1].date > f.now {
		n--
	}
	return n
}

func (c *slidingCounter) grant(f *frame, n int64) {
	c.total += n
	past, full := c.past(f), c.count == maxCells
	if past > 0 {
		newest := &c.cells[past-1]
		if full || (f.now-c.opened)*cellPart < f.window || newest.date == f.now {
			newest.date = f.now
			newest.permits += n
			return
		}
	}
	if full {
		c.cells[0].permits += n
		return
	}
	c.opened = f.now
	copy(c.cells[past+1:], c.cells[past:c.count])
	c.cells[past] = counterCell{date: f.now, permits: n}
	c.count++
}

func (c *slidingCounter) earliest(f *frame, n, after int64) (us int64, room bool) {
	if after == 0 && n <= c.free(f) {
		return 0, true
	}
	if us = c.retry(f, n); us < 0 {
		return us, false
	}
	if c.count > 0 {
		us = max(us, c.cells[c.count-1].date-f.now)
	}
	return max(us, after), true
}

// book takes permits for later. Bookings closer than the resolution share a cell, dated like the
// later one, and so do all for which there is no cell.
func (c *slidingCounter) book(f *frame, n, us int64) (at int64) {
	date := f.now + us
	if us == 0 {
		c.grant(f, n)
		return date
	}
	c.total += n
	if c.count > 0 {
		newest := &c.cells[c.count-1]
		if c.count == maxCells || newest.date > f.now && (date-newest.date)*cellPart < f.window {
			newest.date = date
			newest.permits += n
			return date
		}
	}
	c.cells[c.count] = counterCell{date: date, permits: n}
	c.count++
	return date
}

func (c *slidingCounter) refund(f *frame, n, at int64) int64 {
	if at < c.since || at <= f.now-f.window { // nobody knows any more whether it came back before
		return 0
	}
	for i := range c.count {
		cell := &c.cells[i]
		if cell.date < at {
			continue
		}
		n = min(n, cell.permits)
		cell.permits -= n
		c.total -= n
		if cell.permits == 0 {
			if i == c.count-1 {
				c.opened = 0
			}
			c.drop(i, 1)
		}
		return n
	}
	return 0
}

func (c *slidingCounter) soonest(f *frame) int64 {
	if c.count == 0 {
		return 0
	}
	if c.free(f) == 0 {
		if us := c.retry(f, 1); us >= 0 {
			return us
		}
		return c.reset(f)
	}
	return c.cells[0].date + f.window - f.now
}

// falls returns when a share above its target falls next.
func (c *slidingCounter) falls(f *frame) int64 { return c.cells[0].date + f.window - f.now }

func (c *slidingCounter) reset(f *frame) int64 {
	if c.count == 0 {
		return 0
	}
	return c.cells[c.count-1].date + f.window - f.now
}

func (c *slidingCounter) retry(f *frame, n int64) int64 {
	most := min(f.share, f.target)
	if n > most {
		return -1
	}
	need := c.total + n - most
	if need <= 0 {
		return 0
	}
	for _, cell := range c.cells[:c.count] {
		if need -= cell.permits; need <= 0 {
			return cell.date + f.window - f.now
		}
	}
	return c.reset(f)
}

func (c *slidingCounter) releases(f *frame) (releases []Release) {
	for _, cell := range c.cells[:c.count] {
		releases = append(releases, Release{In: duration(cell.date + f.window - f.now), Permits: cell.permits})
	}
	return releases
}
