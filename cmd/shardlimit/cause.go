package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// This file finds in the errors of the library what a person can act on.

// eachError calls do for an error and every one that it wraps, until do returns false for one: then
// it does not look inside of that.
func eachError(err error, do func(error) bool) {
	if err == nil || !do(err) {
		return
	}
	switch e := err.(type) { //nolint:errorlint // this is what errors.As does
	case interface{ Unwrap() error }:
		eachError(e.Unwrap(), do)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			eachError(one, do)
		}
	}
}

// unreached are the servers that an error tells of, each once: "cannot reach ADDRESS: why".
func unreached(err error) []string {
	var all []string
	note := func(text string) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	eachError(err, func(err error) bool {
		switch e := err.(type) { //nolint:errorlint // eachError unwraps
		case *net.OpError:
			if e.Op != "listen" && e.Addr != nil {
				note(fmt.Sprintf("cannot reach %s: %v", e.Addr, e.Err))
			}
			return false
		case *shardlimit.ShardError:
			if len(unreached(e.Err)) == 0 && errors.Is(e.Err, context.DeadlineExceeded) {
				note(e.Node + " does not answer in time")
				return false
			}
		}
		return true
	})
	return all
}

// shardErrors are the shards that an error tells of.
func shardErrors(err error) []*shardlimit.ShardError {
	var all []*shardlimit.ShardError
	eachError(err, func(err error) bool {
		e, ok := err.(*shardlimit.ShardError) //nolint:errorlint // eachError unwraps
		if ok {
			all = append(all, e)
		}
		return !ok
	})
	return all
}

// unseen are the shards that did not answer, and why, each cause once.
func unseen(s shardlimit.State) (shards int64, causes []string) {
	for _, sh := range s.Shards {
		if sh.Err == nil {
			continue
		}
		shards++
		found := unreached(sh.Err)
		if len(found) == 0 && errors.Is(sh.Err, context.DeadlineExceeded) {
			found = []string{sh.Node + " does not answer in time"}
		}
		if len(found) == 0 {
			found = []string{fmt.Sprintf("%s: %s", sh.Node, oneLine(sh.Err))}
		}
		for _, cause := range found {
			if !slices.Contains(causes, cause) {
				causes = append(causes, cause)
			}
		}
	}
	return shards, causes
}

// plainText is an error without the beginning that those of the library have, in one line.
func plainText(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "shardlimit: "))
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ": shardlimit: ", ": ")
}
