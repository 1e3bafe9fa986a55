package script

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// This file is about takes from shards of a cluster whose hash tags differ: they may lie in several
// slots, and one command can name the keys of one.

// byTag returns the sections by the hash tag of their keys, each in their order.
func byTag(sections []*Section) (tagged [][]*Section) {
	places := make(map[string]int, len(sections))
	for _, s := range sections {
		tag := s.Ref.head[:strings.IndexByte(s.Ref.head, '}')+1]
		at, known := places[tag]
		if !known {
			at = len(tagged)
			places[tag] = at
			tagged = append(tagged, nil)
		}
		tagged[at] = append(tagged[at], s)
	}
	return tagged
}

// takeTagged takes from the shards of each tag in a command of its own, all of them in one
// pipeline. A command that a server surely did not execute is sent again alone: the server lacks
// the script, or the slot is on its way. Nothing is sent of a pipeline, either, while one of its
// slots has no server: then the others are served alone.
func (e *Endpoint) takeTagged(ctx context.Context, tagged [][]*Section) {
	commands := make(rueidis.Commands, 0, len(tagged))
	piped := make([]taggedCall, 0, len(tagged))
	var alone [][]*Section
	for _, sections := range tagged {
		if c, ok := e.taggedCall(sections); ok {
			commands = append(commands, c.command)
			piped = append(piped, c)
		} else {
			alone = append(alone, sections)
		}
	}
	if err := ctx.Err(); err != nil {
		for _, c := range piped {
			fail(c.sections, &unsentError{err})
		}
	} else {
		for i, result := range e.client.DoMulti(ctx, commands...) {
			reply, err := piped[i].program.read(result)
			if noScript(err) || isTorn(err) || errors.Is(err, rueidis.ErrNoSlot) {
				alone = append(alone, piped[i].sections)
				continue
			}
			piped[i].answered(reply, err)
		}
	}
	var wg sync.WaitGroup
	for _, sections := range alone {
		wg.Go(func() { e.takeAlone(ctx, sections) })
	}
	wg.Wait()
}

// takeAlone takes from shards of one tag.
func (e *Endpoint) takeAlone(ctx context.Context, sections []*Section) {
	if len(sections) == 1 {
		e.takeEach(ctx, sections)
	} else if err := e.takeMany(ctx, sections); err != nil {
		fail(sections, err)
	}
}

func fail(sections []*Section, err error) {
	for _, s := range sections {
		s.Err = err
	}
}

// taggedCall is the command for the shards of one tag.
type taggedCall struct {
	sections []*Section
	program  *program
	command  rueidis.Completed
}

// taggedCall returns the command for sections; ok is false if the script was never loaded: then it
// cannot go in a pipeline.
func (e *Endpoint) taggedCall(sections []*Section) (c taggedCall, ok bool) {
	first := sections[0]
	if len(sections) > 1 {
		if !e.takes.known() {
			return c, false
		}
		many := newManyCall(sections)
		return taggedCall{sections, &takesProgram, e.evalsha(&takesProgram, many.keys, many.args)}, true
	}
	number := first.Ref.program(takeProgram)
	if !e.loads[number].known() {
		return c, false
	}
	var room [3]string
	keys := first.Ref.keys()
	command := e.evalsha(&programs[number], keys[:countKeys(keys)], first.Request.arguments(room[:0]))
	return taggedCall{sections, &programs[number], command}, true
}

// answered takes in what came of the command.
func (c *taggedCall) answered(reply []rueidis.RedisMessage, err error) {
	switch {
	case err != nil:
	case len(c.sections) > 1:
		err = readMany(c.sections, reply)
	default:
		s := c.sections[0]
		if err = failure(c.program, reply, s.Ref.keys()); err == nil {
			s.Reply, s.Err = parseTake(reply, s.Request)
		}
	}
	if err != nil {
		fail(c.sections, err)
	}
}
