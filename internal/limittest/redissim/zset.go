package redissim

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// members returns the sorted set under a key, an empty one if there is none.
func (s *Server) members(key string) (*sortedSet, any) {
	v := s.get(key)
	if v == nil {
		return &sortedSet{}, nil
	}
	if v.set == nil {
		return nil, wrongType
	}
	return v.set, nil
}

func doZAdd(s *Server, a []string) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	if s.get(a[0]) == nil {
		s.keys[a[0]] = &value{set: set}
	}
	n := int64(0)
	for i := 1; i+1 < len(a); i += 2 {
		score, err := strconv.ParseFloat(a[i], 64)
		if err != nil {
			return failure("ERR value is not a valid float")
		}
		if set.add(score, a[i+1]) {
			n++
		}
	}
	return n
}

// tidy removes a set that has no members.
func (s *Server) tidy(key string, set *sortedSet) {
	if len(set.members) == 0 {
		delete(s.keys, key)
	}
}

func doZRemByScore(s *Server, a []string) any {
	set, from, to, fail := s.within(a[0], a[1], a[2])
	if fail != nil {
		return fail
	}
	set.members = slices.Delete(set.members, from, to)
	s.tidy(a[0], set)
	return int64(to - from)
}

func doZCard(s *Server, a []string) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	return int64(len(set.members))
}

func doZScore(s *Server, a []string) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	if i := set.find(a[1]); i >= 0 {
		return strconv.FormatFloat(set.members[i].score, 'g', 17, 64)
	}
	return nil
}

func parseBound(text string) (b bound, fail any) {
	text, b.open = strings.CutPrefix(text, "(")
	var err error
	switch text {
	case "-inf":
		b.score = math.Inf(-1)
	case "+inf", "inf":
		b.score = math.Inf(1)
	default:
		b.score, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		return b, failure("ERR min or max is not a float")
	}
	return b, nil
}

// within returns the set under a key, and where in it the members between two scores begin and end.
func (s *Server) within(key, low, high string) (set *sortedSet, from, to int, fail any) {
	if set, fail = s.members(key); fail != nil {
		return nil, 0, 0, fail
	}
	l, fail := parseBound(low)
	if fail != nil {
		return nil, 0, 0, fail
	}
	h, fail := parseBound(high)
	if fail != nil {
		return nil, 0, 0, fail
	}
	from, to = set.between(l, h)
	return set, from, to, nil
}

func doZCount(s *Server, a []string) any {
	_, from, to, fail := s.within(a[0], a[1], a[2])
	if fail != nil {
		return fail
	}
	return int64(to - from)
}

func names(members []member) []any {
	all := make([]any, len(members))
	for i, m := range members {
		all[i] = m.name
	}
	return all
}

func doZRange(s *Server, a []string) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	if len(a) > 3 {
		return failure("ERR syntax error")
	}
	from, to, fail := span(a[1], a[2], len(set.members))
	if fail != nil {
		return fail
	}
	return names(set.members[from:to])
}

func doZByScore(s *Server, key, low, high string, more []string) any {
	set, from, to, fail := s.within(key, low, high)
	if fail != nil {
		return fail
	}
	all := names(set.members[from:to])
	if len(more) == 0 {
		return all
	}
	if len(more) != 3 || !strings.EqualFold(more[0], "LIMIT") {
		return failure("ERR syntax error")
	}
	skip, e1 := strconv.Atoi(more[1])
	count, e2 := strconv.Atoi(more[2])
	if e1 != nil || e2 != nil {
		return failure("ERR value is not an integer or out of range")
	}
	all = all[min(skip, len(all)):]
	return all[:min(count, len(all))]
}
