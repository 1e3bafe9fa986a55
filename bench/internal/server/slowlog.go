package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// SlowFrom is the least duration of a script call that Longest can tell.
const SlowFrom = 100 * time.Microsecond

const slowKept = 1 << 14 // entries of SLOWLOG

// Longest returns how long the longest script call took that was made while do ran, by the
// server's own count (SLOWLOG): the time in which it lost its core is in it. It is
// SlowFrom if none took longer. One at a time for each server.
func (s *Server) Longest(ctx context.Context, do func() error) (time.Duration, error) {
	for name, value := range map[string]int64{"slowlog-log-slower-than": SlowFrom.Microseconds(),
		"slowlog-max-len": slowKept} {
		if err := s.admin.Do(ctx,
			s.admin.B().ConfigSet().ParameterValue().ParameterValue(name,
				strconv.FormatInt(value, 10)).Build()).Error(); err != nil {
			return 0, fmt.Errorf("CONFIG SET %s: %w", name, err)
		}
	}
	if err := s.admin.Do(ctx, s.admin.B().SlowlogReset().Build()).Error(); err != nil {
		return 0, fmt.Errorf("SLOWLOG RESET: %w", err)
	}
	if err := do(); err != nil {
		return 0, err
	}
	entries, err := s.admin.Do(ctx, s.admin.B().SlowlogGet().Count(slowKept).Build()).ToArray()
	if err != nil {
		return 0, fmt.Errorf("SLOWLOG GET: %w", err)
	}
	longest := SlowFrom
	for i := range entries {
		took, err := scriptTook(&entries[i])
		if err != nil {
			return 0, fmt.Errorf("SLOWLOG GET: %w", err)
		}
		longest = max(longest, took)
	}
	return longest, nil
}

// scriptTook is how long the call of an entry of SLOWLOG took; 0 if it was no script.
func scriptTook(entry *rueidis.RedisMessage) (time.Duration, error) {
	fields, err := entry.ToArray() // number, instant, microseconds, words of the command ...
	if err != nil || len(fields) < 4 {
		return 0, fmt.Errorf("%d fields, want 4 or more: %w", len(fields), err)
	}
	micros, err := fields[2].AsInt64()
	if err != nil {
		return 0, err
	}
	words, err := fields[3].AsStrSlice()
	if err != nil || len(words) == 0 || !slices.Contains([]string{"EVAL", "EVALSHA"}, words[0]) {
		return 0, err
	}
	return time.Duration(micros) * time.Microsecond, nil
}
