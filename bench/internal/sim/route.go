package sim

// dispatch sends asks to shards, as route.go does.
func (w *world) dispatch(i int, now int64, a asks) { w.send(i, now, now, a) }

// send is dispatch with what was shut at the time asof.
func (w *world) send(i int, asof, now int64, a asks) {
	p := &w.fleet[i]
	var spills bool
	w.places, spills = p.candidates(asof, a.done, w.c.Route.Preferred, w.places)
	if len(w.places) == 0 {
		w.denied(i, now, a)
		return
	}
	if w.c.Route.Even || spills {
		w.rng.Shuffle(len(w.places), func(x, y int) { w.places[x], w.places[y] = w.places[y], w.places[x] })
	}
	w.loads, w.got = w.loads[:0], w.got[:0]
	for _, place := range w.places {
		w.loads, w.got = append(w.loads, p.lanes[place].load()), append(w.got, 0)
	}
	for range w.c.Route.Preferred {
		if spills {
			break
		}
		place, ok := w.rotated(p, asof, a.done)
		if !ok {
			break
		}
		first, rest := a.split(1)
		w.join(i, place, now, first)
		if a = rest; a.n == 0 {
			return
		}
		for k := range w.places {
			w.loads[k] = p.lanes[w.places[k]].load()
		}
	}
	fill(w.loads, a.n, w.got)
	for k, place := range w.places {
		if w.got[k] > 0 {
			part := a
			part.n = w.got[k]
			w.join(i, place, now, part)
		}
	}
}

// rotated is the place for a call that finds those it would go to almost idle.
func (w *world) rotated(p *process, asof int64, done uint64) (place int, ok bool) {
	all := int64(0)
	for _, n := range w.loads {
		all += n
	}
	few := w.c.Route.Preferred
	if w.c.Route.Rotation == 0 || len(w.places) < few || all >= int64(few) {
		return 0, false
	}
	for k := range few {
		place = w.c.rotated(asof, k)
		if p.open(asof)&^done&(1<<place) != 0 && p.lanes[place].load() == 0 {
			return place, true
		}
	}
	return 0, false
}
