package script

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// MaxSections is the most shards that one call may take from.
const MaxSections = 128

// Section is one shard's part of a call that takes from several.
type Section struct {
	Ref     ShardRef
	Request *TakeRequest
	// What came of it: Reply if Err is nil.
	Reply TakeReply
	Err   error

	full  bool // the full take of the algorithm serves it, not the calm one
	paced bool // or the paced one, if it can
}

// TakeAll takes from several shards, of each as Take does, in their order; a shard may come more
// than once. What goes wrong with one shard is its section's Err and harms no other. The error is
// that of the whole call, and nothing is told of its sections then: for each of them it means what
// it means for a Take.
//
// It is one round trip where every state is as proposed, or known to be not; and another for those
// that turn out to be not. In a cluster shards of several hash tags, which may lie in several
// slots, are taken from by one command for each tag, all in one pipeline.
func (e *Endpoint) TakeAll(ctx context.Context, sections []Section) error {
	if len(sections) > MaxSections {
		return invalid("%d sections", len(sections))
	}
	sent := make([]*Section, 0, len(sections))
	for i := range sections {
		s := &sections[i]
		if s.Reply, s.Err = (TakeReply{}), s.check(); s.Err == nil {
			sent = append(sent, s)
		}
	}
	err := e.takeTogether(ctx, sent)
	if len(sections) == 1 && err == nil {
		err = sections[0].Err
	}
	return err
}

// takeTogether takes from shards by take.lua, and by their full takes from those that are not for
// it.
func (e *Endpoint) takeTogether(ctx context.Context, sections []*Section) error {
	chooseFull(sections)
	commands := e.commands(sections)
	if err := e.makeCalls(ctx, commands); err != nil {
		return err
	}
	var left []*Section
	for i := range commands {
		for _, s := range commands[i].sections {
			if n := commands[i].number; s.full && n == calmProgram || n == pacedProgram && !s.paced && s.Err == nil {
				left = append(left, s)
			}
		}
	}
	if len(left) > 0 {
		if err := e.makeCalls(ctx, e.commands(left)); err != nil {
			fail(left, err)
		}
	}
	return nil
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

// manyCall is a call under construction.
type manyCall struct{ keys, args []string }

// newManyCall returns what a call for the sections consists of.
func newManyCall(sections []*Section) *manyCall {
	c := &manyCall{keys: make([]string, 0, 2*len(sections)+1), args: make([]string, 1, 8)}
	var plan []byte
	for _, s := range sections {
		c.keys = append(c.keys, s.Ref.head, s.Ref.Ledger())
		var room [3]string
		plan = columns.Section.Append(plan, 0, int64(s.Ref.algorithm), int64(c.place(s.Request.arguments(room[:0]))))
	}
	c.keys, c.args[0] = append(c.keys, wholeOf(sections)), string(plan)
	return c
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

// place returns where in the arguments of the call those of a section are, counted from 1. Sections
// that ask the same of the same limit share them: most do.
func (c *manyCall) place(args []string) int {
	for at := len(c.args) - len(args); at > 0 && at > len(c.args)-4*len(args); at -= len(args) {
		if c.args[at+2] == args[2] && c.args[at+1] == args[1] && c.args[at] == args[0] {
			return at + 1
		}
	}
	c.args = append(c.args, args...)
	return len(c.args) - len(args) + 1
}

func (s *Section) check() error {
	if s.Ref.head == "" {
		return errNoKey
	}
	return s.Request.check(s.Ref)
}

// readMany takes in what the full takes of several sections replied.
func readMany(sections []*Section, reply []rueidis.RedisMessage) error {
	if len(reply) != len(sections) {
		return malformed(&takesProgram, "wrong number of sections")
	}
	for i, s := range sections {
		if one, err := reply[i].ToArray(); err != nil {
			s.Err = malformed(&takesProgram, "a section is not a list")
		} else {
			s.read(one)
		}
	}
	return nil
}

// read takes in what a full take replied.
func (s *Section) read(reply []rueidis.RedisMessage) {
	if s.Err = failure(&programs[s.Ref.program(takeProgram)], reply, s.Ref.creating(s.Request)); s.Err == nil {
		s.Reply, s.Err = parseTake(reply, s.Request)
	}
}

// takesProgram is the takes of all algorithms in one script.
var takesProgram = func() program {
	lines, _ := takesLines(func(r *recipe) []string {
		r.names = withNames(r.names, map[string]string{"TIME": "clock"})
		body, _ := r.assemble()
		return body
	})
	return newProgram("takes", strings.Join(lines, "\n")+"\n")
}()

// takesLines are the lines of the script, and of each the fragment that it comes from; those of a
// take, for which body stands, come from none.
func takesLines(body func(take *recipe) []string) (lines, owners []string) {
	none := func(more ...string) {
		lines, owners = append(lines, more...), append(owners, make([]string, len(more))...)
	}
	fragment := func(name string) {
		a := assembly{recipe: &recipe{file: "takes"}}
		a.add(name, "")
		lines, owners = append(lines, a.lines...), append(owners, a.owners...)
	}
	none("-- takes = takes + the take of each algorithm + takes_each")
	fragment("takes")
	for a := range algorithms {
		take := recipes[ShardRef{algorithm: a}.program(takeProgram)]
		none("take['" + strconv.Itoa(int(a)) + "'] = function(KEYS, ARGV)")
		none(body(&take)...)
		none("end")
	}
	fragment("takes_each")
	return lines, owners
}

func withNames(names, more map[string]string) map[string]string {
	all := maps.Clone(names)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}
