package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

const (
	slotsAtOnce = 256 // slots that are on their way together
	keysAtOnce  = 100 // keys of one MIGRATE
)

// Migrate moves the slots first..last, 0..16383 and both included, with their
// keys to Masters()[to], as a live resharding does: while a slot is on its way
// clients get ASK for the keys that have gone, and MOVED afterwards. Slots that
// are there already stay. It returns when all living nodes agree.
func (c *Cluster) Migrate(first, last, to int) {
	c.tb.Helper()
	within(c.tb, clusterTimeout, "migrate", func(ctx context.Context) error { return c.migrate(ctx, first, last, to) })
}

func (c *Cluster) migrate(ctx context.Context, first, last, to int) error {
	if first < 0 || last < first || last >= slotCount {
		return errors.New("no such slots")
	}
	for ; first <= last; first += slotsAtOnce {
		end := min(first+slotsAtOnce-1, last)
		m, err := c.begin(ctx, first, end, to)
		if err != nil {
			return err
		}
		if err := m.complete(ctx); err != nil {
			return err
		}
	}
	return c.await(ctx, c.settled)
}

// Migration is a number of slots on their way, for tests that need to look at a
// cluster in that state. A migration begun must be finished.
type Migration struct {
	c      *Cluster
	from   map[*Server][]int // slots by the master that gives them away
	to     *Server
	others []*Server // masters that neither give nor take
}

// BeginMigration marks the slots first..last as on their way to Masters()[to]
// and moves no key yet. From here on a key that does not exist is looked for at
// the new master (ASK).
func (c *Cluster) BeginMigration(first, last, to int) *Migration {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if first < 0 || last < first || last >= slotCount {
		c.tb.Fatalf("redistest: begin migration: no slots %d..%d", first, last)
	}
	m, err := c.begin(ctx, first, last, to)
	if err != nil {
		c.tb.Fatalf("redistest: begin migration of slots %d..%d: %v", first, last, err)
	}
	return m
}

// MoveKeys moves all keys the slots have. Their next command gets ASK.
func (m *Migration) MoveKeys() {
	m.c.tb.Helper()
	within(m.c.tb, clusterTimeout, "move keys", m.moveKeys)
}

// Finish moves the keys that are left and gives the slots to their new master.
// It returns when all living nodes agree.
func (m *Migration) Finish() {
	m.c.tb.Helper()
	within(m.c.tb, clusterTimeout, "finish migration", func(ctx context.Context) error {
		if err := m.complete(ctx); err != nil {
			return err
		}
		return m.c.await(ctx, m.c.settled)
	})
}

func (c *Cluster) begin(ctx context.Context, first, last, to int) (*Migration, error) {
	masters, err := c.masters(ctx)
	if err != nil {
		return nil, err
	}
	if to < 0 || to >= len(masters) {
		return nil, fmt.Errorf("no master %d of %d", to, len(masters))
	}
	v, err := masters[to].view(ctx)
	if err != nil {
		return nil, err
	}
	m := &Migration{c: c, from: map[*Server][]int{}, to: masters[to]}
	for slot := first; slot <= last; slot++ {
		owner := c.byID[v.owner(slot)]
		if owner == nil {
			return nil, fmt.Errorf("slot %d has no owner", slot)
		}
		if owner != m.to {
			m.from[owner] = append(m.from[owner], slot)
		}
	}
	m.others = slices.DeleteFunc(masters, func(s *Server) bool {
		return s == m.to || m.from[s] != nil || !s.alive()
	})
	for from, slots := range m.from {
		// The taker first: it must not refuse what the giver sends it.
		if err := setSlots(ctx, m.to, slots, "IMPORTING", c.ids[from]); err != nil {
			return nil, err
		}
		if err := setSlots(ctx, from, slots, "MIGRATING", c.ids[m.to]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moveKeys empties the slots at the master that gives them away. As that master
// creates no keys in them any more, a slot found empty stays so.
func (m *Migration) moveKeys(ctx context.Context) error {
	for from, slots := range m.from {
		count := make([][]string, len(slots))
		for i, slot := range slots {
			count[i] = []string{"CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)}
		}
		counts, err := from.doMulti(ctx, count...)
		if err != nil {
			return err
		}
		for i, slot := range slots {
			if n, err := counts[i].AsInt64(); err != nil {
				return err
			} else if n == 0 {
				continue
			}
			if err := m.moveSlot(ctx, from, slot); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Migration) moveSlot(ctx context.Context, from *Server, slot int) error {
	for {
		reply, err := from.do(ctx, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), strconv.Itoa(keysAtOnce))
		if err != nil {
			return err
		}
		keys, err := reply.AsStrSlice()
		if err != nil || len(keys) == 0 {
			return err
		}
		move := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), "", "0",
			strconv.FormatInt(adminTimeout.Milliseconds(), 10), "KEYS"}
		if _, err := from.do(ctx, append(move, keys...)...); err != nil {
			return err
		}
	}
}

// complete moves all keys and tells the new master first: would the old one forget the slots
// before, nobody had them for a moment. The other masters only hear it sooner.
func (m *Migration) complete(ctx context.Context) error {
	if err := m.moveKeys(ctx); err != nil {
		return err
	}
	for from, slots := range m.from {
		for _, s := range append([]*Server{m.to, from}, m.others...) {
			if err := setSlots(ctx, s, slots, "NODE", m.c.ids[m.to]); err != nil {
				return err
			}
		}
	}
	return nil
}

func setSlots(ctx context.Context, s *Server, slots []int, state, id string) error {
	commands := make([][]string, len(slots))
	for i, slot := range slots {
		commands[i] = []string{"CLUSTER", "SETSLOT", strconv.Itoa(slot), state, id}
	}
	_, err := s.doMulti(ctx, commands...)
	return err
}
