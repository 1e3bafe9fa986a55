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
}

// TakeAll takes from several shards in one round trip, of each as Take does, in their order; a
// shard may come more than once. What goes wrong with one shard is its section's Err and harms no
// other. The error is that of the whole call, and nothing is told of its sections then: for each of
// them it means what it means for a Take.
//
// A single section is sent as a Take. In a cluster shards of several hash tags, which may lie in
// several slots, are taken from by one command for each tag, all in one pipeline.
func (e *Endpoint) TakeAll(ctx context.Context, sections []Section) error {
	if len(sections) > MaxSections {
		return invalid("%d sections", len(sections))
	}
	if len(sections) == 1 {
		s := &sections[0]
		s.Reply, s.Err = e.Take(ctx, s.Ref, s.Request)
		return s.Err
	}
	sent := make([]*Section, 0, len(sections))
	for i := range sections {
		s := &sections[i]
		if s.Reply, s.Err = (TakeReply{}), s.check(); s.Err == nil {
			sent = append(sent, s)
		}
	}
	if e.client.Mode() == rueidis.ClientModeCluster {
		if tagged := byTag(sent); len(tagged) > 1 {
			e.takeTagged(ctx, tagged)
			return nil
		}
	}
	return e.takeMany(ctx, sent)
}

// takeMany takes from shards of one slot, or of a node that is no cluster.
func (e *Endpoint) takeMany(ctx context.Context, sections []*Section) error {
	if len(sections) == 0 {
		return nil
	}
	c := newManyCall(sections)
	reply, err := e.sendLoaded(ctx, &takesProgram, &e.takes, c.keys, c.args)
	if isTorn(err) {
		e.takeEach(ctx, sections)
		return nil
	}
	if err != nil {
		return err
	}
	return readMany(sections, reply)
}

func readMany(sections []*Section, reply []rueidis.RedisMessage) error {
	if len(reply) != len(sections) {
		return malformed(&takesProgram, "wrong number of sections")
	}
	for i, s := range sections {
		s.Reply, s.Err = s.read(reply[i])
	}
	return nil
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
type manyCall struct {
	plan []byte
	keys []string
	args []string
}

// newManyCall returns what a call for the sections consists of.
func newManyCall(sections []*Section) *manyCall {
	c := &manyCall{keys: make([]string, 0, 3*len(sections)), args: make([]string, 1, 8)}
	for _, s := range sections {
		c.add(s)
	}
	c.args[0] = string(c.plan)
	return c
}

func (c *manyCall) add(s *Section) {
	keys := s.Ref.keys()
	used := countKeys(keys)
	c.keys = append(c.keys, keys[:used]...)
	var room [3]string
	from := c.place(s.Request.arguments(room[:0]))
	c.plan = columns.Section.Append(c.plan, 0, int64(s.Ref.algorithm), int64(used), int64(from))
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

func (s *Section) read(message rueidis.RedisMessage) (TakeReply, error) {
	reply, err := message.ToArray()
	if err != nil {
		return TakeReply{}, malformed(&takesProgram, "a section is not a list")
	}
	p := &programs[s.Ref.program(takeProgram)]
	if err := failure(p, reply, s.Ref.keys()); err != nil {
		return TakeReply{}, err
	}
	return parseTake(reply, s.Request)
}

// takesProgram is the takes of all algorithms in one script.
var takesProgram = func() program {
	lines, _ := takesLines(func(r *recipe) []string {
		r.names = withNames(withNames(r.names, read), map[string]string{"INFO": "info()", "SAVED": "saved()"})
		r.parts = slices.DeleteFunc(slices.Clone(r.parts), func(part string) bool { return part == "log_state" })
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
		none("take['" + strconv.Itoa(int(a)) + "'] = function(KEYS, ARGV, state)")
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
