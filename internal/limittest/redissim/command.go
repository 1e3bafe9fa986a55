package redissim

import (
	"fmt"
	"strconv"
	"time"
)

// command is what a name does, with at least so many arguments.
type command struct {
	least int
	run   func(s *Server, args []string) any
}

var commands map[string]command

// writes are the commands that need room.
var writes = []string{"SET", "SETRANGE", "HSET", "ZADD"}

func init() { // commands run scripts, which run commands
	commands = map[string]command{
		"PING":     {0, func(*Server, []string) any { return status("PONG") }},
		"TIME":     {0, doTime},
		"INFO":     {0, doInfo},
		"TYPE":     {1, doType},
		"EXISTS":   {1, doExists},
		"DEL":      {1, doDel},
		"PEXPIRE":  {2, doExpire},
		"PTTL":     {1, doTTL},
		"GET":      {1, doGet},
		"SET":      {2, doSet},
		"GETRANGE": {3, doGetRange},
		"SETRANGE": {3, doSetRange},
		"HGET":     {2, doHGet},
		"HSET":     {3, doHSet},
		"HGETALL":  {1, doHGetAll},
		"HDEL":     {2, doHDel},
		"ZADD":     {3, doZAdd},
		"ZCARD":    {1, doZCard},
		"ZSCORE":   {2, doZScore},
		"ZCOUNT":   {3, doZCount},
		"ZRANGE":   {3, doZRange},
		"ZRANGEBYSCORE": {3,
			func(s *Server, a []string) any { return doZByScore(s, a[0], a[1], a[2], a[3:]) }},
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
	return fmt.Sprintf("# Server\r\nredis_version:7.0.15\r\nrun_id:%020x%020x\r\nuptime_in_seconds:%d\r\n",
		s.number, s.since.UnixNano(), int64(s.clock().Sub(s.since)/time.Second))
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

func doEvalSHA(s *Server, a []string) any {
	script, ok := s.loaded[a[0]]
	if !ok {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.run(script, a[1:])
}
