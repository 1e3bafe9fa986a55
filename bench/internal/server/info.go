package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Info returns the fields of INFO everything.
func (s *Server) Info(ctx context.Context) (map[string]string, error) {
	text, err := s.admin.Do(ctx, s.admin.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("INFO: %w", err)
	}
	return parseInfo(text), nil
}

// Has reports whether the server has a command.
func (s *Server) Has(ctx context.Context, command string) (bool, error) {
	found, err := s.admin.Do(ctx, s.admin.B().CommandInfo().CommandName(command).Build()).ToArray()
	return len(found) == 1 && !found[0].IsNil(), err
}

func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields
}

// Usage is what a server has done since it started.
type Usage struct {
	CPU         float64 // seconds, of all its threads
	Scripts     int64   // EVAL, EVALSHA and INCREX calls
	ScriptMicro int64   // microseconds spent in them
}

// Usage reads the server's counters.
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return Usage{}, err
	}
	return usage(info)
}

func usage(info map[string]string) (Usage, error) {
	var u Usage
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			return u, fmt.Errorf("INFO field %s: %w", field, err)
		}
		u.CPU += seconds
	}
	for _, command := range []string{"cmdstat_eval", "cmdstat_evalsha", "cmdstat_increx"} {
		stats, ok := info[command]
		if !ok {
			continue // never called
		}
		var calls, micro int64
		if _, err := fmt.Sscanf(stats, "calls=%d,usec=%d,", &calls, &micro); err != nil {
			return u, fmt.Errorf("INFO field %s=%q: %w", command, stats, err)
		}
		u.Scripts += calls
		u.ScriptMicro += micro
	}
	return u, nil
}

// Since is the difference to an earlier reading.
func (u Usage) Since(earlier Usage) Usage {
	return Usage{
		CPU:         u.CPU - earlier.CPU,
		Scripts:     u.Scripts - earlier.Scripts,
		ScriptMicro: u.ScriptMicro - earlier.ScriptMicro,
	}
}
