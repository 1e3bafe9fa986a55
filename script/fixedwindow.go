package script

// fixedWindow is the Go twin of fixedwindow.lua: what was granted in the window that began at
// opened, and what is reserved in the next.
type fixedWindow struct {
	opened int64
	since  int64 // what was granted earlier is forgotten
	counts [2]int64
}

// begin begins the first window, or forgets what is in the one that is.
func (w *fixedWindow) begin(f *frame) {
	opened := w.opened
	if opened == 0 {
		opened = w.opening(f)
	}
	*w = fixedWindow{opened: opened, since: f.now}
}

// opening is when the window that holds now begins.
func (w *fixedWindow) opening(f *frame) int64 {
	return floorDiv(f.now, f.window) * f.window
}

func (w *fixedWindow) advance(f *frame) {
	passed := (f.now - w.opened) / f.window
	if passed <= 0 {
		return
	}
	w.opened += passed * f.window
	w.since = w.opened
	next := w.counts[1]
	w.counts = [2]int64{}
	if passed == 1 {
		w.counts[0] = next
	}
}

// regrid keeps what was counted in the window that now holds the beginning of the one in which it
// was.
func (w *fixedWindow) regrid(f *frame, was int64) {
	old := *w
	*w = fixedWindow{opened: w.opening(f), since: old.since}
	for i, n := range old.counts {
		later := floorDiv(old.opened+int64(i)*was-w.opened, f.window)
		w.counts[min(max(later, 0), 1)] += n
	}
}

func (w *fixedWindow) retire(*frame)  {}
func (w *fixedWindow) reshape(*frame) {}

func (w *fixedWindow) held(*frame) int64 { return max(w.counts[0], w.counts[1]) }

func (w *fixedWindow) overdraw(f *frame, n, _ int64) int64 {
	return overdrawn(n, max(f.share, f.target), w.counts[0])
}
func (w *fixedWindow) used(*frame) int64          { return w.counts[0] + w.counts[1] }
func (w *fixedWindow) free(f *frame) int64        { return max(min(f.share, f.target)-w.counts[0], 0) }
func (w *fixedWindow) grant(_ *frame, n int64)    { w.counts[0] += n }
func (w *fixedWindow) pace(*frame) (int64, int64) { return 0, 0 }

func (w *fixedWindow) earliest(f *frame, n, after int64) (us int64, room bool) {
	if after == 0 && n <= w.free(f) {
		return 0, true
	}
	most, i := min(f.share, f.target), (f.now+after-w.opened)/f.window
	if n > most {
		return -1, false
	}
	for i < 2 && w.counts[i]+n > most {
		i++
	}
	return max(w.opened+i*f.window-f.now, after), true
}

func (w *fixedWindow) book(f *frame, n, us int64) (at int64) {
	w.counts[min((f.now+us-w.opened)/f.window, 1)] += n
	return f.now + us
}

// refund takes permits off the window that holds at.
func (w *fixedWindow) refund(f *frame, n, at int64) int64 {
	i := floorDiv(at-w.opened, f.window)
	if at < w.since || i < 0 || i > 1 {
		return 0
	}
	n = min(n, w.counts[i])
	w.counts[i] -= n
	return n
}

func (w *fixedWindow) soonest(f *frame) int64 {
	if w.used(f) == 0 {
		return 0
	}
	if w.free(f) == 0 {
		if us := w.retry(f, 1); us >= 0 {
			return us
		}
		return w.reset(f)
	}
	return w.opened + f.window - f.now
}

// falls returns when a share above its target falls next.
func (w *fixedWindow) falls(f *frame) int64 { return w.opened + f.window - f.now }

func (w *fixedWindow) reset(f *frame) int64 {
	switch {
	case w.counts[1] > 0:
		return w.opened + 2*f.window - f.now
	case w.counts[0] > 0:
		return w.opened + f.window - f.now
	}
	return 0
}

func (w *fixedWindow) retry(f *frame, n int64) int64 {
	most := min(f.share, f.target)
	if n > most {
		return -1
	}
	i := 0
	for i < 2 && w.counts[i]+n > most {
		i++
	}
	if i == 0 {
		return 0
	}
	return w.opened + int64(i)*f.window - f.now
}

func (w *fixedWindow) releases(f *frame) (releases []Release) {
	for i, n := range w.counts {
		if n > 0 {
			releases = append(releases, Release{In: duration(w.opened + int64(i+1)*f.window - f.now), Permits: n})
		}
	}
	return releases
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
