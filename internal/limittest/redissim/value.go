package redissim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// value is what one key holds: one of the three kinds is not nil, and expires at an instant in us,
// 0 for never.
type value struct {
	text    []byte
	hash    map[string]string
	set     *sortedSet
	expires int64
}

func (v *value) kind() string {
	switch {
	case v.hash != nil:
		return "hash"
	case v.set != nil:
		return "zset"
	}
	return "string"
}

func (v *value) clone() *value {
	c := *v
	c.text, c.hash = slices.Clone(v.text), maps.Clone(v.hash)
	if v.set != nil {
		c.set = &sortedSet{members: slices.Clone(v.set.members)}
	}
	return &c
}

// member of a sorted set.
type member struct {
	score float64
	name  string
}

func byScore(a, b member) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
}

// sortedSet keeps its members in order. The sets of a simulation are small.
type sortedSet struct{ members []member }

func (s *sortedSet) find(name string) int {
	return slices.IndexFunc(s.members, func(m member) bool { return m.name == name })
}

// add reports whether the member is new.
func (s *sortedSet) add(score float64, name string) bool {
	i := s.find(name)
	if i >= 0 {
		s.members = slices.Delete(s.members, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(s.members, member{score, name}, byScore)
	s.members = slices.Insert(s.members, at, member{score, name})
	return i < 0
}

// between returns where the members within the bounds begin and end.
func (s *sortedSet) between(low, high bound) (from, to int) {
	from, _ = slices.BinarySearchFunc(s.members, low, func(m member, b bound) int {
		if m.score > b.score || m.score == b.score && !b.open {
			return 1
		}
		return -1
	})
	to, _ = slices.BinarySearchFunc(s.members, high, func(m member, b bound) int {
		if m.score > b.score || m.score == b.score && b.open {
			return 1
		}
		return -1
	})
	return from, max(from, to)
}

// bound of a range of scores, as in ZRANGEBYSCORE.
type bound struct {
	score float64
	open  bool
}
