package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// rounds is how many rounds one exchange makes at the most.
const rounds = 6

// Errors of an exchange.
var (
	errUnreadable = errors.New("the membership cannot be read by this version")
	// ErrNoMajority tells that too few of the places answered.
	ErrNoMajority = errors.New("no majority of the nodes that keep the membership answers")
)

// exchange reads the places, and has what it finds confirmed, completed or begun. A whole one waits
// for each place, so that one that is blank is restored. It belongs to who holds the token.
func (f *Fence) exchange(ctx context.Context, whole bool) error {
	err := f.read(ctx, whole)
	if errors.Is(err, errUnsettled) {
		_, err = f.change(ctx, f.begin)
	}
	f.failure = err
	if err != nil {
		f.failedAt.Store(f.env.Nodes.Clock.Elapsed())
	} else {
		f.failedAt.Store(0)
	}
	return err
}

// errUnsettled tells that a read found nothing that it can rely on: a round has to be made.
var errUnsettled = errors.New("the membership is not settled")

// read asks all places once. What a majority confirms is learned at once: a place that does not
// answer holds nobody up.
func (f *Fence) read(ctx context.Context, whole bool) error {
	began := f.env.Nodes.Clock.Elapsed()
	replies := f.ask()
	answers := make([]*majority.Answer, len(f.places))
	var got majority.Reading
	var verdict majority.Verdict
	var errs []error
	for range f.places {
		select {
		case r := <-replies:
			answers[r.place] = r.answer
			if r.err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", f.places[r.place], r.err))
			}
		case <-ctx.Done():
			if verdict == majority.Confirmed {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrNoMajority, errors.Join(append(errs, clock.Ended(ctx))...))
		}
		if got, verdict = majority.Confirm(answers); verdict != majority.Confirmed {
			continue
		}
		if err := f.heard(got, began); err != nil || !whole {
			return err
		}
	}
	switch {
	case verdict == majority.Unknown:
		return fmt.Errorf("%w: %w", ErrNoMajority, errors.Join(errs...))
	case verdict == majority.Unsettled, got.Blank && chance.N(4) == 0: // a blank place is restored once in a while
		return errUnsettled
	}
	return nil
}

// heard takes in what a majority confirms in a read that began then.
func (f *Fence) heard(got majority.Reading, began int64) error {
	m, err := majority.DecodeMembership(got.Value)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if m.Generation < max(f.Generation(), f.least) {
		return errUnsettled // the places forgot it
	}
	f.learn(m, began, got.Held)
	return nil
}

// placeReply is what came of a message to a place.
type placeReply struct {
	place  int
	answer *majority.Answer
	err    error
}

// ask sends a read to each place. Replies may come long after the caller has left.
func (f *Fence) ask() <-chan placeReply {
	replies := make(chan placeReply, len(f.places))
	for i, name := range f.places {
		go func() {
			a, err := f.vote(f.env.Nodes.Ctx, name, majority.Message{Kind: majority.Read})
			replies <- placeReply{i, a, err}
		}()
	}
	return replies
}

// begin is the membership that goes on: what was found, or what this process knows if that is
// later, or, if there is none, one in which all nodes of this process are in.
func (f *Fence) begin(found majority.Found) (m majority.Membership, err error) {
	if found.Exists {
		if m, err = majority.DecodeMembership(found.Value); err != nil {
			return m, fmt.Errorf("%w: %w", errUnreadable, err)
		}
	}
	if k := f.known.Load(); k != nil && k.membership.Generation > m.Generation {
		return k.membership.Outlast(), nil
	}
	if m.Generation < f.least {
		return f.anew()
	}
	return m, nil
}

// anew is a membership that follows all that this process has heard of, with all of its nodes in.
func (f *Fence) anew() (majority.Membership, error) {
	var names []string
	for _, n := range f.env.Nodes.Roster().All() {
		names = append(names, n.Name)
	}
	for _, p := range f.places {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	// By the time of day, so that no generation, and no life, comes twice although nobody
	// remembers.
	generation := max(f.least, f.env.Nodes.Clock.At(f.env.Nodes.Clock.Now()).UnixMilli())
	return majority.NewMembership(generation, f.places, names...)
}

// Follow confirms a generation that is no earlier than those in which these lives began. If every
// place has forgotten them, all nodes are in under one that follows: their lives are others then.
func (f *Fence) Follow(ctx context.Context, lives ...string) error {
	if err := f.Confirm(ctx); err != nil {
		return err
	}
	generation := int64(0)
	for _, life := range lives {
		if began, mine := f.began(life); mine {
			generation = max(generation, began)
		}
	}
	if f.Generation() >= generation {
		return nil
	}
	select {
	case f.token <- struct{}{}:
		defer func() { <-f.token }()
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
	if err := f.exchange(ctx, false); err != nil || f.Generation() >= generation {
		return err
	}
	f.least = generation + 1
	m, err := f.change(ctx, f.begin)
	if err == nil {
		f.log.Warn("the membership of the nodes was lost; it began anew", "generation", m.Generation)
	}
	return err
}

// change makes rounds until one chooses what next makes of what it found, and learns that.
func (f *Fence) change(ctx context.Context,
	next func(majority.Found) (majority.Membership, error)) (m majority.Membership, err error) {
	for i := range rounds {
		if i > 0 && !clock.Sleep(ctx, chance.N(time.Duration(i)*4*time.Millisecond)) {
			return m, errors.Join(err, clock.Ended(ctx))
		}
		if m, err = f.round(ctx, next); !errors.Is(err, majority.ErrOvertaken) && !errors.Is(err, majority.ErrBlank) {
			break
		}
	}
	return m, err
}

// round makes one round.
func (f *Fence) round(ctx context.Context,
	next func(majority.Found) (majority.Membership, error)) (m majority.Membership, err error) {
	began := f.env.Nodes.Clock.Elapsed()
	r := f.proposer.Begin()
	defer f.proposer.End(r)
	var mu sync.Mutex
	errs := f.each(f.all(r.Ask()), func(to majority.Addressed) error {
		a, err := f.vote(ctx, f.places[to.Place], to.Message)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			r.Promise(to.Place, *a)
		}
		return err
	})
	held := time.Duration(0)
	messages, err := r.Choose(func(found majority.Found) (string, error) {
		if m, err = next(found); err != nil {
			return "", err
		}
		held = heldIf(m, found)
		return m.Encode()
	})
	if err != nil {
		return m, f.refused(err, errs)
	}
	errs = append(errs, f.each(messages, func(to majority.Addressed) error {
		a, err := f.vote(ctx, f.places[to.Place], to.Message)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			r.Accepted(to.Place, *a)
		}
		return err
	})...)
	if err := r.Err(); err != nil {
		return m, f.refused(err, errs)
	}
	f.each(r.Restores(), func(to majority.Addressed) error {
		_, err := f.vote(ctx, f.places[to.Place], to.Message)
		return err
	})
	f.learn(m, began, held)
	return m, nil
}

// refused is the error of a round, with why places did not answer.
func (f *Fence) refused(err error, errs []error) error {
	if errors.Is(err, majority.ErrNoMajority) {
		return fmt.Errorf("%w: %w", ErrNoMajority, errors.Join(errs...))
	}
	return err
}

// learn notes a membership that was found or written by an exchange that began then.
func (f *Fence) learn(m majority.Membership, began int64, held time.Duration) {
	old := f.known.Load()
	if old != nil && old.membership.Generation > m.Generation {
		return // another exchange was later
	}
	k := &knowledge{membership: m, held: held, since: f.env.Nodes.Clock.Now(),
		lives:  make(map[string]string, len(m.Nodes)),
		belief: majority.Belief{Generation: m.Generation, Began: time.Duration(began)}}
	if old != nil && old.membership.Generation == m.Generation {
		k.since = old.since
	}
	for _, n := range m.Nodes {
		if !n.Out {
			k.lives[n.Name] = f.id + "-" + strconv.FormatInt(n.Since, 36)
		}
	}
	f.known.Store(k)
	close(*f.learned.Swap(news()))
	if old == nil || old.membership.Generation != m.Generation {
		f.tell(old, m)
		if f.env.Changed != nil {
			f.env.Changed()
		}
	}
}

// news returns a channel that is closed when something was learned.
func news() *chan struct{} {
	c := make(chan struct{})
	return &c
}

func (f *Fence) all(m majority.Message) (to []majority.Addressed) {
	for i := range f.places {
		to = append(to, majority.Addressed{Place: i, Message: m})
	}
	return to
}

// each sends messages at once, and waits for all.
func (f *Fence) each(to []majority.Addressed, send func(majority.Addressed) error) []error {
	errs := make([]error, len(to))
	var wg sync.WaitGroup
	for i, m := range to {
		wg.Go(func() {
			if err := send(m); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", f.places[m.Place], err)
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// vote sends a message to a node. One that is away is asked only when it is time to look whether it
// is back.
func (f *Fence) vote(ctx context.Context, name string, m majority.Message) (*majority.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, max(f.env.Nodes.CallTimeout, placePatience))
	defer cancel()
	n := f.env.Nodes.Node(name)
	if n == nil {
		return nil, node.ErrStranger
	}
	about := telemetry.Call{Operation: telemetry.Vote, Shard: shard.Tag(f.slot)}
	ctx, call, err := n.BeginUnlessAway(ctx, f.slot, about, true)
	if err != nil {
		return nil, err
	}
	reply, err := call.Scripts.Vote(ctx, f.ref, script.VoteRequest{Kind: int(m.Kind),
		Ballot: script.VoteBallot(m.Ballot), Mark: m.Mark, Value: m.Value})
	call.Finish(ctx, err)
	if err != nil {
		return nil, err
	}
	n.ServerClock(f.slot).Learn(f.env.Nodes.Clock.Elapsed(), reply.Now)
	return &majority.Answer{OK: reply.Done, Votes: reply.Votes, Mark: reply.Mark,
		Promised: majority.Ballot(reply.Promised), Accepted: majority.Ballot(reply.Accepted), Value: reply.Value,
		Age: reply.Age}, nil
}
