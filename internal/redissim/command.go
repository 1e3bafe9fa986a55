package redissim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// command is what a name does, with at least so many arguments.
type command struct {
	least int
	run   func(s *Server, args []string) any
}

var commands map[string]command

func init() { // commands run scripts, which run commands
	commands = map[string]command{
		"PING":             {0, func(*Server, []string) any { return status("PONG") }},
		"TIME":             {0, doTime},
		"INFO":             {0, doInfo},
		"TYPE":             {1, doType},
		"EXISTS":           {1, doExists},
		"DEL":              {1, doDel},
		"PEXPIRE":          {2, doExpire},
		"PTTL":             {1, doTTL},
		"GET":              {1, doGet},
		"SET":              {2, doSet},
		"GETRANGE":         {3, doGetRange},
		"SETRANGE":         {3, doSetRange},
		"STRLEN":           {1, doLen},
		"HGET":             {2, doHGet},
		"HMGET":            {2, doHMGet},
		"HSET":             {3, doHSet},
		"HEXISTS":          {2, doHExists},
		"ZADD":             {3, doZAdd},
		"ZREM":             {2, doZRem},
		"ZCARD":            {1, doZCard},
		"ZSCORE":           {2, doZScore},
		"ZCOUNT":           {3, doZCount},
		"ZRANGE":           {3, func(s *Server, a []string) any { return doZRange(s, a, false) }},
		"ZREVRANGE":        {3, func(s *Server, a []string) any { return doZRange(s, a, true) }},
		"ZRANGEBYSCORE":    {3, func(s *Server, a []string) any { return doZByScore(s, a[0], a[1], a[2], a[3:], false) }},
		"ZREVRANGEBYSCORE": {3, func(s *Server, a []string) any { return doZByScore(s, a[0], a[2], a[1], a[3:], true) }},
		"ZREMRANGEBYSCORE": {3, doZRemByScore},
		"EVAL":             {2, func(s *Server, a []string) any { return s.eval(a[0], a[1:]) }},
		"EVALSHA":          {2, doEvalSHA},
	}
}

func doTime(s *Server, _ []string) any {
	now := s.now()
	return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}
}

func doInfo(s *Server, _ []string) any {
	return fmt.Sprintf("# Server\r\nredis_version:7.0.15\r\nrun_id:%040x\r\nuptime_in_seconds:%d\r\n",
		s.since.UnixNano(), int64(s.clock().Sub(s.since)/time.Second))
}

func doType(s *Server, a []string) any {
	v := s.get(a[0])
	if v == nil {
		return status("none")
	}
	return status(v.kind())
}

func doExists(s *Server, a []string) any {
	n := int64(0)
	for _, key := range a {
		if s.get(key) != nil {
			n++
		}
	}
	return n
}

func doDel(s *Server, a []string) any {
	n := int64(0)
	for _, key := range a {
		if s.get(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	return n
}

func doExpire(s *Server, a []string) any {
	v := s.get(a[0])
	ms, err := strconv.ParseInt(a[1], 10, 64)
	switch {
	case err != nil:
		return failure("ERR value is not an integer or out of range")
	case v == nil:
		return int64(0)
	}
	v.expires = s.now() + ms*1000
	return int64(1)
}

func doTTL(s *Server, a []string) any {
	v := s.get(a[0])
	switch {
	case v == nil:
		return int64(-2)
	case v.expires == 0:
		return int64(-1)
	}
	return (v.expires - s.now()) / 1000
}

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

func doLen(s *Server, a []string) any {
	v, fail := s.text(a[0])
	if fail != nil {
		return fail
	}
	if v == nil {
		return int64(0)
	}
	return int64(len(v.text))
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

func doHExists(s *Server, a []string) any {
	v := s.get(a[0])
	if v == nil {
		return int64(0)
	}
	if v.hash == nil {
		return wrongType
	}
	if _, ok := v.hash[a[1]]; ok {
		return int64(1)
	}
	return int64(0)
}

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

func doZRem(s *Server, a []string) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	n := int64(0)
	for _, name := range a[1:] {
		if set.remove(name) {
			n++
		}
	}
	s.tidy(a[0], set)
	return n
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

func doZRemByScore(s *Server, a []string) any {
	set, from, to, fail := s.within(a[0], a[1], a[2])
	if fail != nil {
		return fail
	}
	set.members = append(set.members[:from:from], set.members[to:]...)
	s.tidy(a[0], set)
	return int64(to - from)
}

// names lists members, last first if backwards.
func names(members []member, backwards bool) []any {
	all := make([]any, len(members))
	for i, m := range members {
		if backwards {
			i = len(members) - 1 - i
		}
		all[i] = m.name
	}
	return all
}

func doZRange(s *Server, a []string, backwards bool) any {
	set, fail := s.members(a[0])
	if fail != nil {
		return fail
	}
	if len(a) > 3 {
		return failure("ERR syntax error")
	}
	count := len(set.members)
	from, to, fail := span(a[1], a[2], count)
	if fail != nil {
		return fail
	}
	if backwards {
		from, to = count-to, count-from
	}
	return names(set.members[from:to], backwards)
}

func doZByScore(s *Server, key, low, high string, more []string, backwards bool) any {
	set, from, to, fail := s.within(key, low, high)
	if fail != nil {
		return fail
	}
	all := names(set.members[from:to], backwards)
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

func doEvalSHA(s *Server, a []string) any {
	script, ok := s.loaded[a[0]]
	if !ok {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.run(script, a[1:])
}
