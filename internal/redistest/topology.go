package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const slotCount = 16384

// view is what one node of a cluster believes about all nodes, by node id.
type view map[string]*member

type member struct {
	flags  map[string]bool // as in CLUSTER NODES, without "myself"
	master string          // id; "-" for a master
	epoch  int64
	linked bool
	slots  []slotRange
}

type slotRange struct{ first, last int }

// parseView reads the answer of CLUSTER NODES.
func parseView(text string) (view, error) {
	v := view{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 8 {
			return nil, fmt.Errorf("redistest: CLUSTER NODES: short line %q", line)
		}
		m := &member{flags: map[string]bool{}, master: f[3], linked: f[7] == "connected"}
		for _, flag := range strings.Split(f[2], ",") {
			m.flags[flag] = true
		}
		if m.flags["myself"] {
			m.linked = true
			delete(m.flags, "myself")
		}
		var err error
		if m.epoch, err = strconv.ParseInt(f[6], 10, 64); err != nil {
			return nil, fmt.Errorf("redistest: CLUSTER NODES: %w", err)
		}
		for _, s := range f[8:] {
			if strings.HasPrefix(s, "[") {
				continue // a slot on its way; the owner lists it as well
			}
			r, err := parseRange(s)
			if err != nil {
				return nil, err
			}
			m.slots = append(m.slots, r)
		}
		v[f[0]] = m
	}
	return v, nil
}

func parseRange(s string) (slotRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	if err := errors.Join(errA, errB); err != nil || a < 0 || a > b || b >= slotCount {
		return slotRange{}, fmt.Errorf("redistest: bad slot range %q", s)
	}
	return slotRange{a, b}, nil
}

// owner is the id of who owns a slot; "" if nobody does.
func (v view) owner(slot int) string {
	for id, m := range v {
		if slices.ContainsFunc(m.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last }) {
			return id
		}
	}
	return ""
}

// sameOwners tells whether another view has all owners of slots that this one has. Servers tell
// ranges in order, and each as long as it can be.
func (v view) sameOwners(other view) bool {
	for id, m := range v {
		if o := other[id]; len(m.slots) > 0 && (o == nil || !slices.Equal(m.slots, o.slots)) {
			return false
		}
	}
	return true
}

func (s *Server) view(ctx context.Context) (view, error) {
	text, err := s.text(ctx, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	return parseView(text)
}

// settled tells whether every living node knows all others, believes the living
// ones well, agrees on the owner of every slot and on the config epoch of every
// living master, and accepts commands.
//
// The epochs matter: a master that takes a slot gives itself an epoch above those it
// knows of. Had it not heard of the last one, the old owner's next message would win
// the slot back from it, and each of the two would name the other for good.
func (c *Cluster) settled(ctx context.Context) error {
	var first view
	for _, s := range c.servers {
		if !s.alive() {
			continue
		}
		v, err := s.view(ctx)
		if err != nil {
			return err
		}
		if err := c.wellKnown(v); err != nil {
			return fmt.Errorf("%s: %w", s.Addr(), err)
		}
		if first == nil {
			first = v
		}
		if !v.sameOwners(first) || !first.sameOwners(v) {
			return fmt.Errorf("%s does not agree on the owners of the slots", s.Addr())
		}
		if !maps.Equal(c.epochs(v), c.epochs(first)) {
			return fmt.Errorf("%s does not agree on the config epochs", s.Addr())
		}
		if err := s.clusterOK(ctx); err != nil {
			return err
		}
	}
	if first == nil {
		return final{errors.New("redistest: no node of the cluster is alive")}
	}
	return nil
}

// epochs are the config epochs of the living masters, by id.
func (c *Cluster) epochs(v view) map[string]int64 {
	epochs := make(map[string]int64)
	for id, m := range v {
		if s := c.byID[id]; s != nil && s.alive() && m.flags["master"] {
			epochs[id] = m.epoch
		}
	}
	return epochs
}

// wellKnown tells whether a view has all nodes, with nothing wrong about the
// living ones.
func (c *Cluster) wellKnown(v view) error {
	if len(v) != len(c.servers) {
		return fmt.Errorf("knows %d nodes of %d", len(v), len(c.servers))
	}
	for id, s := range c.byID {
		m := v[id]
		if m == nil {
			return fmt.Errorf("does not know %s", s.Addr())
		}
		if !s.alive() {
			continue
		}
		for _, bad := range []string{"handshake", "noaddr", "fail", "fail?"} {
			if m.flags[bad] {
				return fmt.Errorf("takes %s for %q", s.Addr(), bad)
			}
		}
		if !m.linked {
			return fmt.Errorf("has no link to %s", s.Addr())
		}
	}
	return nil
}

func (s *Server) clusterOK(ctx context.Context) error {
	info, err := s.text(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("%s: cluster_state is not ok", s.Addr())
	}
	return nil
}

// Owner is the server that answers for a slot now. Some node must be alive.
func (c *Cluster) Owner(slot int) (owner *Server) {
	c.tb.Helper()
	within(c.tb, clusterTimeout, fmt.Sprint("owner of slot ", slot), func(ctx context.Context) error {
		return poll(ctx, func() error {
			i := slices.IndexFunc(c.servers, (*Server).alive)
			v, err := c.servers[max(i, 0)].view(ctx)
			if err != nil {
				return err
			}
			if owner = c.byID[v.owner(slot)]; owner == nil {
				return errors.New("nobody owns it")
			}
			return nil
		})
	})
	return owner
}
