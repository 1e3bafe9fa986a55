package script

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// These scripts serve takes before the full one of the algorithm is asked.
var calmScript, pacedScript = &programs[calmProgram], &programs[pacedProgram]

// takeCall is one script call for the takes of some sections, whose keys lie in one slot.
type takeCall struct {
	sections   []*Section
	program    *program
	keys, args []string
}

// commandsFor returns the calls that take from the sections: one for those that are for take.lua,
// in a cluster for each hash tag, and one for each of the others.
func (e *Endpoint) commandsFor(sections []*Section) (all []takeCall) {
	var calm []*Section
	for _, s := range sections {
		if s.full {
			all = append(all, s.fullCall())
		} else {
			calm = append(calm, s)
		}
	}
	tagged := [][]*Section{calm}
	if len(calm) > 0 && e.client.Mode() == rueidis.ClientModeCluster {
		tagged = byTag(calm)
	}
	for _, some := range tagged {
		if len(some) > 0 {
			keys, args := newCalmCall(some)
			all = append(all, takeCall{some, calmScript, keys, args})
		}
	}
	return all
}

// fullCall returns the call of the full take, or of the paced one.
func (s *Section) fullCall() takeCall {
	if s.paced {
		return takeCall{[]*Section{s}, pacedScript, s.Ref.keys(), s.Request.pacedArguments()}
	}
	p := s.Ref.algorithm.programOf(takeProgram)
	return takeCall{[]*Section{s}, p, s.Ref.creating(s.Request), s.Request.arguments(nil)}
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

// makeCalls makes the calls, several of them in one pipeline.
func (e *Endpoint) makeCalls(ctx context.Context, all []takeCall) {
	switch len(all) {
	case 0:
	case 1:
		fail(all[0].sections, e.makeCall(ctx, &all[0]))
	default:
		e.pipe(ctx, all, false)
	}
}

// pipe makes calls in one pipeline. The first of each script comes with its full text if the script
// is new, and with load always.
//
// A command that a server surely did not execute is sent again: as the server lacks the script, in
// another pipeline, or, while the slot is on its way, alone. Nothing is sent of a pipeline, either,
// while one of its slots has no server: then the others are served alone.
func (e *Endpoint) pipe(ctx context.Context, all []takeCall, load bool) {
	if err := ctx.Err(); err != nil {
		for i := range all {
			fail(all[i].sections, &unsentError{err})
		}
		return
	}
	known, built := make(map[*program]bool), make(rueidis.Commands, len(all))
	for i := range all {
		c := &all[i]
		full := !known[c.program] && (load || !e.loaded[c.program.number].Load())
		built[i], known[c.program] = e.command(c.program, full, c.keys, c.args), true
	}
	var unloaded []takeCall
	alone := make(map[string][]*takeCall) // of each shard, in their order
	for i, result := range e.client.DoMulti(ctx, built...) {
		c := &all[i]
		switch reply, err := c.program.read(result); {
		case noScript(err):
			unloaded = append(unloaded, *c)
		case isTorn(err) || errors.Is(err, rueidis.ErrNoSlot):
			alone[c.keys[0]] = append(alone[c.keys[0]], c)
		case err != nil:
			fail(c.sections, err)
		default:
			e.loaded[c.program.number].Store(true)
			fail(c.sections, c.read(reply))
		}
	}
	var wg sync.WaitGroup
	for _, calls := range alone {
		wg.Go(func() {
			for _, c := range calls {
				fail(c.sections, e.makeCall(ctx, c))
			}
		})
	}
	wg.Wait()
	if len(unloaded) > 0 {
		e.pipe(ctx, unloaded, true)
	}
}

func (e *Endpoint) makeCall(ctx context.Context, c *takeCall) error {
	for pause := tornPause; ; pause *= 2 {
		reply, err := e.send(ctx, c.program, c.keys, c.args)
		switch {
		case err == nil:
			return c.read(reply)
		case isTorn(err) && len(c.sections) > 1:
			e.takeEach(ctx, c.sections)
			return nil
		case isTorn(err) && c.program == calmScript && c.keys[1] != c.keys[0]:
			c.keys, c.args = existing(c.sections[0])
		case !isTorn(err) || !rest(ctx, pause):
			return err
		}
	}
}

// read takes in a reply.
func (c *takeCall) read(reply []rueidis.RedisMessage) error {
	if c.program == calmScript {
		return readCalm(c.sections, reply)
	}
	s := c.sections[0]
	if c.program == pacedScript {
		s.paced, s.Err = s.readPaced(reply)
	} else if s.Err = failure(c.program, reply, c.keys); s.Err == nil {
		s.Reply, s.Err = parseTake(c.program, reply, s.Request)
	}
	return nil
}

// fail tells the sections what failed, if anything did.
func fail(sections []*Section, err error) {
	for _, s := range sections {
		s.Err = cmp.Or(err, s.Err)
	}
}
