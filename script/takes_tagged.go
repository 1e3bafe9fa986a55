package script

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// takeCall is one script call for the takes of some sections, whose keys lie in one slot.
type takeCall struct {
	sections   []*Section
	number     int // of the program
	keys, args []string
}

// commandsFor returns the calls that take from the sections: one for those that are for take.lua,
// in a cluster for each hash tag, and one for each of the others.
func commandsFor(sections []*Section, cluster bool) (all []takeCall) {
	var calm []*Section
	for _, s := range sections {
		if s.full {
			all = append(all, s.fullCall())
		} else {
			calm = append(calm, s)
		}
	}
	tagged := [][]*Section{calm}
	if cluster {
		tagged = byTag(calm)
	}
	for _, some := range tagged {
		if len(some) > 0 {
			keys, args := newCalmCall(some)
			all = append(all, takeCall{some, calmProgram, keys, args})
		}
	}
	return all
}

// fullCall returns the call of the full take, or of the paced one.
func (s *Section) fullCall() takeCall {
	number, keys, args := s.Ref.program(takeProgram), s.Ref.creating(s.Request), s.Request.arguments(nil)
	if s.paced {
		number, keys, args = pacedProgram, s.Ref.keys(), s.Request.pacedArguments()
	}
	return takeCall{[]*Section{s}, number, keys[:countKeys(keys)], args}
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
// sections.
func (e *Endpoint) makeCalls(ctx context.Context, all []takeCall) error {
	if len(all) == 1 {
		return e.makeCall(ctx, &all[0])
	}
	e.pipe(ctx, all)
	return nil
}

// pipe makes calls in one pipeline. A script that the endpoint does not have yet comes with one
// call, which goes by itself, and before the others.
//
// A command that a server surely did not execute is sent again alone: the server lacks the script,
// or the slot is on its way. Nothing is sent of a pipeline, either, while one of its slots has no
// server: then the others are served alone.
func (e *Endpoint) pipe(ctx context.Context, all []takeCall) {
	if len(all) == 0 {
		return
	}
	var piped, unloaded []takeCall
	var built rueidis.Commands
	for _, c := range all {
		if e.loaded[c.number].Load() > 0 {
			piped, built = append(piped, c), append(built, e.evalsha(&programs[c.number], c.keys, c.args))
		} else {
			unloaded = append(unloaded, c)
		}
	}
	if err := ctx.Err(); err != nil {
		for _, c := range all {
			fail(c.sections, &unsentError{err})
		}
		return
	}
	inOrder := make(map[string][]*takeCall) // those that go alone, of each shard
	for i, result := range e.client.DoMulti(ctx, built...) {
		c := &piped[i]
		reply, err := programs[c.number].read(result)
		if noScript(err) || isTorn(err) || errors.Is(err, rueidis.ErrNoSlot) {
			inOrder[c.keys[0]] = append(inOrder[c.keys[0]], c)
			continue
		}
		if err == nil {
			err = c.read(reply)
		}
		if err != nil {
			fail(c.sections, err)
		}
	}
	var wg sync.WaitGroup
	for _, calls := range inOrder {
		wg.Go(func() {
			for _, c := range calls {
				e.makeAlone(ctx, c)
			}
		})
	}
	wg.Wait()
	if len(unloaded) > 0 {
		e.makeAlone(ctx, &unloaded[0])
		e.pipe(ctx, unloaded[1:])
	}
}

// makeAlone makes one call of several, and tells its sections what fails.
func (e *Endpoint) makeAlone(ctx context.Context, c *takeCall) {
	if err := e.makeCall(ctx, c); err != nil {
		fail(c.sections, err)
	}
}

func (e *Endpoint) makeCall(ctx context.Context, c *takeCall) error {
	for pause := tornPause; ; pause *= 2 {
		reply, err := e.sendLoaded(ctx, c.number, c.keys, c.args)
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

func (c *takeCall) read(reply []rueidis.RedisMessage) error {
	switch c.number {
	case calmProgram:
		return readCalm(c.sections, reply)
	case pacedProgram:
		s := c.sections[0]
		s.paced, s.Err = s.readPaced(reply)
		return nil
	}
	c.sections[0].read(reply)
	return nil
}

func fail(sections []*Section, err error) {
	for _, s := range sections {
		s.Err = err
	}
}
