package parts

// Perfect is the record of a divider that knew beforehand what would be wanted in each
// window, gave away that window's permits by weighted max-min, in fractions if need be, and
// carried nothing over to the next. Each call gets the same fraction of what it wants as
// the others of its participant in that window, at once. Windows are those of the
// record, from its beginning on. What was wanted is that of r, not a copy of it.
//
// It is a yardstick, not a bound: judged over more than a window, a random demand may
// have come in the window in which it could not be served. A divider that also knew the
// windows to come could do better.
func (r *Record) Perfect() *Record {
	perfect := &Record{Weights: r.Weights, Wanted: r.Wanted, PerWindow: r.PerWindow, Permits: r.Permits}
	for _, wanted := range r.Wanted {
		perfect.Got = append(perfect.Got, make([]float64, len(wanted)))
	}
	bins := len(r.Wanted[0])
	for from := 0; from < bins; from += r.PerWindow {
		to := min(from+r.PerWindow, bins)
		part, _ := r.Between(from, to)
		for i, wanted := range r.Wanted {
			sum := total(wanted[from:to])
			if sum == 0 {
				continue
			}
			for bin := from; bin < to; bin++ {
				perfect.Got[i][bin] = wanted[bin] * part[i] / sum
			}
		}
	}
	return perfect
}
