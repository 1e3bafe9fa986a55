package script

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// takeCall is one script call for the takes of some sections, whose keys lie in one slot.
type takeCall struct {
	sections   []*Section
	number     int // of the program, or manyFull
	program    *program
	load       *load
	keys, args []string
}

// manyFull is the number of takesProgram.
const manyFull = -1

// commands returns the calls that take from the sections: one for those that are for take.lua, and
// one for the others; in a cluster, for each hash tag.
func (e *Endpoint) commands(sections []*Section) (all []takeCall) {
	tagged := [][]*Section{sections}
	if e.client.Mode() == rueidis.ClientModeCluster {
		tagged = byTag(sections)
	}
	for _, some := range tagged {
		var full []*Section
		if slices.ContainsFunc(some, func(s *Section) bool { return s.full }) {
			full = slices.DeleteFunc(slices.Clone(some), func(s *Section) bool { return !s.full })
			some = slices.DeleteFunc(slices.Clone(some), func(s *Section) bool { return s.full })
		}
		if len(some) > 0 {
			c := newCalmCall(some)
			all = append(all, takeCall{some, calmProgram, &programs[calmProgram], &e.loads[calmProgram], c.keys, c.args})
		}
		for _, s := range full {
			if s.paced {
				keys := s.Ref.keys()
				p, l := &programs[pacedProgram], &e.loads[pacedProgram]
				all = append(all, takeCall{[]*Section{s}, pacedProgram, p, l, keys[:countKeys(keys)],
					s.Request.pacedArguments()})
			}
		}
		full = slices.DeleteFunc(full, func(s *Section) bool { return s.paced })
		if len(full) == 1 {
			s := full[0]
			number, keys := s.Ref.program(takeProgram), s.Ref.creating(s.Request)
			all = append(all, takeCall{full, number, &programs[number], &e.loads[number], keys[:countKeys(keys)],
				s.Request.arguments(nil)})
		} else if len(full) > 1 {
			c := newManyCall(full)
			all = append(all, takeCall{full, manyFull, &takesProgram, &e.takes, c.keys, c.args})
		}
	}
	return all
}

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

// makeCalls makes the calls, several of them in one pipeline: then what fails is told of their
// sections. A command that a server surely did not execute is sent again alone: the server lacks
// the script, or the slot is on its way. Nothing is sent of a pipeline, either, while one of its
// slots has no server: then the others are served alone.
func (e *Endpoint) makeCalls(ctx context.Context, all []takeCall) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return e.makeCall(ctx, &all[0])
	}
	built := make(rueidis.Commands, 0, len(all))
	var piped, alone []*takeCall
	for i := range all {
		if c := &all[i]; c.load.known() {
			piped, built = append(piped, c), append(built, e.evalsha(c.program, c.keys, c.args))
		} else { // it cannot go in a pipeline
			alone = append(alone, c)
		}
	}
	if err := ctx.Err(); err != nil {
		for _, c := range piped {
			fail(c.sections, &unsentError{err})
		}
	} else {
		for i, result := range e.client.DoMulti(ctx, built...) {
			c := piped[i]
			reply, err := c.program.read(result)
			if noScript(err) || isTorn(err) || errors.Is(err, rueidis.ErrNoSlot) {
				alone = append(alone, c)
				continue
			}
			if err == nil {
				err = c.read(reply)
			}
			if err != nil {
				fail(c.sections, err)
			}
		}
	}
	var wg sync.WaitGroup
	for _, c := range alone {
		wg.Go(func() {
			if err := e.makeCall(ctx, c); err != nil {
				fail(c.sections, err)
			}
		})
	}
	wg.Wait()
	return nil
}

// makeCall makes one call.
func (e *Endpoint) makeCall(ctx context.Context, c *takeCall) error {
	for pause := tornPause; ; pause *= 2 {
		reply, err := e.sendLoaded(ctx, c.program, c.load, c.keys, c.args)
		switch {
		case err == nil:
			return c.read(reply)
		case isTorn(err) && len(c.sections) > 1:
			e.takeEach(ctx, c.sections)
			return nil
		case isTorn(err) && c.number == calmProgram && c.keys[1] != c.keys[0]:
			c.keys, c.args = existing(c.sections[0])
		case !isTorn(err) || !rest(ctx, pause):
			return err
		}
	}
}

// read takes in the reply.
func (c *takeCall) read(reply []rueidis.RedisMessage) error {
	switch c.number {
	case calmProgram:
		return readCalm(c.sections, reply)
	case pacedProgram:
		s := c.sections[0]
		s.paced, s.Err = s.readPaced(reply)
		return nil
	case manyFull:
		return readMany(c.sections, reply)
	}
	c.sections[0].read(reply)
	return nil
}

func fail(sections []*Section, err error) {
	for _, s := range sections {
		s.Err = err
	}
}
