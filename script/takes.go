package script

import (
	"context"
	"slices"
	"sync"
)

// mostSections is how many sections a call has at the most, as a rule.
const mostSections = 128

// Section is one shard's part of a call that takes from several.
type Section struct {
	Ref     ShardRef
	Request *TakeRequest
	// Reply is there if Err is nil. If the whole call failed, each section has its error.
	Reply TakeReply
	Err   error

	full  bool // the full take of the algorithm serves it, not the calm one
	paced bool // or the paced one, if it can
}

// TakeAll takes from several shards, of each as Take does, in their order; a shard may come more
// than once. A shard that fails harms no other: its section has the error.
//
// It is one round trip where every state is as proposed, or known to be not; and another for those
// that turn out to be not. What goes together is one pipeline: a command of take.lua, in a cluster
// one for each hash tag, and one command for each section that needs its full take.
func (e *Endpoint) TakeAll(ctx context.Context, sections []*Section) {
	sent := make([]*Section, 0, len(sections))
	for _, s := range sections {
		if s.Reply, s.Err = (TakeReply{}), nil; s.Ref.head == "" {
			s.Err = errNoKey
		} else {
			sent = append(sent, s)
		}
	}
	chooseFull(sent)
	commands := e.commandsFor(sent)
	e.makeCalls(ctx, commands)
	var left []*Section
	for i := range commands {
		for _, s := range commands[i].sections {
			if p := commands[i].program; s.full && p == calmScript || p == pacedScript && !s.paced && s.Err == nil {
				left = append(left, s)
			}
		}
	}
	e.makeCalls(ctx, e.commandsFor(left))
}

// chooseFull finds out which sections are not for take.lua. What comes more than once goes one way,
// in its order.
func chooseFull(sections []*Section) {
	full := map[string]bool(nil)
	for _, s := range sections {
		if _, calm := s.Request.calm(); !calm {
			if full == nil {
				full = make(map[string]bool, len(sections))
			}
			full[s.Ref.head] = true
		}
	}
	for _, s := range sections {
		s.full = full[s.Ref.head]
		s.paced = s.full && s.Request.paced() &&
			!slices.ContainsFunc(sections, func(o *Section) bool { return o != s && o.Ref.head == s.Ref.head })
	}
}

// takeEach takes from each shard in a call of its own. So it is done while their slot is on its way
// to another server: a server then executes those calls only whose keys are all there.
func (e *Endpoint) takeEach(ctx context.Context, sections []*Section) {
	var wg sync.WaitGroup
	for _, s := range sections {
		wg.Go(func() { s.Reply, s.Err = e.Take(ctx, s.Ref, s.Request) })
	}
	wg.Wait()
}

// wholeOf returns the key that tells since when the server has its memory, if any of the sections
// needs it.
func wholeOf(sections []*Section) string {
	for _, s := range sections {
		if key := s.Ref.whole(s.Request); key != s.Ref.head {
			return key
		}
	}
	return sections[0].Ref.head
}
