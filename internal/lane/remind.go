package lane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// This file has the reminders themselves, and how one loss that was found alarms other lanes. A
// server that loses its memory may have the shards of very many limits.

// remindersAtOnce is how many goroutines make reminders to one node.
const remindersAtOnce = 8

// post is reminders that are to be made, by node.
type post struct {
	mu    sync.Mutex
	boxes map[*node.Node]*mailbox
}

// mailbox is reminders to one node.
type mailbox struct {
	waiting []errand
	workers int
}

// errand is a reminder that is to be made.
type errand struct {
	lane *Lane
	past *past // claimed
}

// remindSoon has the shard reminded, unless it is to be already.
func (e *Env) remindSoon(l *Lane) {
	p := l.past.Load()
	if !p.claim() {
		return
	}
	o := &e.vigil.post
	o.mu.Lock()
	defer o.mu.Unlock()
	box := o.boxes[l.Node]
	if box == nil {
		box = &mailbox{}
		if o.boxes == nil {
			o.boxes = make(map[*node.Node]*mailbox)
		}
		o.boxes[l.Node] = box
	}
	box.waiting = append(box.waiting, errand{l, p})
	if box.workers < remindersAtOnce {
		box.workers++
		go e.work(l.Node)
	}
}

// work makes reminders to a node until none waits.
func (e *Env) work(n *node.Node) {
	for {
		r, ok := e.vigil.post.next(n)
		if !ok {
			return
		}
		r.lane.remind(r.past)
		r.past.release()
	}
}

// next returns whose turn it is; if there is none, the worker ends.
func (o *post) next(n *node.Node) (r errand, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	box := o.boxes[n]
	if len(box.waiting) > 0 {
		r, box.waiting[0] = box.waiting[0], errand{}
		box.waiting = box.waiting[1:]
		return r, true
	}
	if box.workers--; box.workers == 0 {
		delete(o.boxes, n)
	}
	return r, false
}

// remind tells the shard what this process was granted there, if that may still be in use. Its past
// was claimed.
func (l *Lane) remind(p *past) {
	now := l.env.Clock.Now()
	if l.env.Closed.Load() || !l.Reachable(now) {
		return // it is tried again before the shard opens
	}
	req, ok := p.begin(now, l.Terms.Load())
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.env.CallTimeout)
	defer cancel()
	sent := l.env.Clock.Elapsed()
	var reply script.RemindReply
	err := l.run(ctx, telemetry.Remind, func(ctx context.Context, c *call) (err error) {
		reply, err = c.Scripts.Remind(ctx, l.Ref, req)
		return err
	})
	if p.end(sent, l.env.Clock.Now(), reply, err) {
		l.env.alarm(l, sent)
	}
}

// alarms is losses that were found of which the lanes beside have to hear. All that are found
// within leastPace are told of at once: to go through all lanes for each of them would take long.
type alarms struct {
	mu    sync.Mutex
	found []found
	under bool // some are told of now, or will be
}

// found is a lane whose shard had lost its memory, as a reminder has shown that was sent at this
// time.
type found struct {
	lane *Lane
	sent int64
}

// alarm has the lanes beside this one doubt whether their shards remember.
func (e *Env) alarm(l *Lane, sent int64) {
	a := &e.vigil.alarms
	a.mu.Lock()
	a.found = append(a.found, found{l, sent})
	first := !a.under
	a.under = true
	a.mu.Unlock()
	if first {
		e.sound()
	}
}

// sound tells of what was found, and does so again a little later if more was.
func (e *Env) sound() {
	a := &e.vigil.alarms
	a.mu.Lock()
	all := a.found
	a.found = nil
	if a.under = len(all) > 0 && !e.Closed.Load(); a.under {
		time.AfterFunc(leastPace, e.sound)
	}
	a.mu.Unlock()
	var servers []*Lane // one lane of each
	told := make(map[*Lane]bool, len(all))
	for _, f := range all {
		told[f.lane] = true
		if !slices.ContainsFunc(servers, f.lane.beside) {
			servers = append(servers, f.lane)
		}
	}
	if len(servers) > 0 {
		for _, l := range e.vigil.list() {
			if !told[l] && slices.ContainsFunc(servers, l.beside) {
				l.past.Load().doubts()
			}
		}
	}
	for _, f := range all {
		f.lane.past.Load().reminded(f.sent)
	}
}
