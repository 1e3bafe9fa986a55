package redissim

import (
	"maps"
	"slices"
)

func doHGet(s *Server, a []string) any {
	got := doHMGet(s, a[:2])
	if all, ok := got.([]any); ok {
		return all[0]
	}
	return got
}

func doHMGet(s *Server, a []string) any {
	v := s.get(a[0])
	if v != nil && v.hash == nil {
		return wrongType
	}
	all := make([]any, len(a)-1)
	for i, field := range a[1:] {
		if v == nil {
			continue
		}
		if text, ok := v.hash[field]; ok {
			all[i] = text
		}
	}
	return all
}

func doHSet(s *Server, a []string) any {
	v := s.get(a[0])
	if v == nil {
		v = &value{hash: make(map[string]string)}
		s.keys[a[0]] = v
	} else if v.hash == nil {
		return wrongType
	}
	n := int64(0)
	for i := 1; i+1 < len(a); i += 2 {
		if _, ok := v.hash[a[i]]; !ok {
			n++
		}
		v.hash[a[i]] = a[i+1]
	}
	return n
}

func doHGetAll(s *Server, a []string) any {
	v := s.get(a[0])
	if v != nil && v.hash == nil {
		return wrongType
	}
	all := []any{}
	if v != nil {
		for _, field := range slices.Sorted(maps.Keys(v.hash)) {
			all = append(all, field, v.hash[field])
		}
	}
	return all
}

func doHDel(s *Server, a []string) any {
	v := s.get(a[0])
	if v == nil {
		return int64(0)
	}
	if v.hash == nil {
		return wrongType
	}
	before := len(v.hash)
	for _, field := range a[1:] {
		delete(v.hash, field)
	}
	if len(v.hash) == 0 {
		delete(s.keys, a[0])
	}
	return int64(before - len(v.hash))
}
