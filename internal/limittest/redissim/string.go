package redissim

import (
	"strconv"
	"strings"
)

// text returns the string under a key: nil without a failure if there is none.
func (s *Server) text(key string) (*value, any) {
	v := s.get(key)
	if v != nil && v.kind() != "string" {
		return nil, wrongType
	}
	return v, nil
}

func doGet(s *Server, a []string) any {
	v, fail := s.text(a[0])
	if fail != nil {
		return fail
	}
	if v == nil {
		return nil
	}
	return string(v.text)
}

func doSet(s *Server, a []string) any {
	v := &value{text: []byte(a[1])}
	for i := 2; i < len(a); i++ {
		switch strings.ToUpper(a[i]) {
		case "PX":
			if i+1 == len(a) {
				return failure("ERR syntax error")
			}
			ms, err := strconv.ParseInt(a[i+1], 10, 64)
			if err != nil || ms <= 0 {
				return failure("ERR invalid expire time in 'set' command")
			}
			v.expires = s.now() + ms*1000
			i++
		case "NX":
			if s.get(a[0]) != nil {
				return nil
			}
		case "KEEPTTL":
			if old := s.get(a[0]); old != nil {
				v.expires = old.expires
			}
		default:
			return failure("ERR syntax error")
		}
	}
	s.keys[a[0]] = v
	return status("OK")
}

// span turns first and last, from the end if below 0, into a slice's bounds.
func span(first, last string, length int) (from, to int, fail any) {
	from, e1 := strconv.Atoi(first)
	to, e2 := strconv.Atoi(last)
	if e1 != nil || e2 != nil {
		return 0, 0, failure("ERR value is not an integer or out of range")
	}
	if from < 0 {
		from = max(from+length, 0)
	}
	if to < 0 {
		to += length
	}
	to = min(to+1, length)
	return min(from, max(to, 0)), max(to, 0), nil
}

func doGetRange(s *Server, a []string) any {
	v, fail := s.text(a[0])
	if fail != nil {
		return fail
	}
	if v == nil {
		return ""
	}
	from, to, fail := span(a[1], a[2], len(v.text))
	if fail != nil {
		return fail
	}
	return string(v.text[from:to])
}

func doSetRange(s *Server, a []string) any {
	v, fail := s.text(a[0])
	if fail != nil {
		return fail
	}
	at, err := strconv.Atoi(a[1])
	if err != nil || at < 0 {
		return failure("ERR value is not an integer or out of range")
	}
	if v == nil {
		if a[2] == "" {
			return int64(0)
		}
		v = &value{}
		s.keys[a[0]] = v
	}
	for len(v.text) < at+len(a[2]) {
		v.text = append(v.text, 0)
	}
	copy(v.text[at:], a[2])
	return int64(len(v.text))
}
