package redissim

import (
	"maps"
	"slices"
)

func doHGet(s *Server, a []string) any {
	v := s.get(a[0])
	if v == nil {
		return nil
	}
	if v.hash == nil {
		return wrongType
	}
	if text, ok := v.hash[a[1]]; ok {
		return text
	}
	return nil
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
