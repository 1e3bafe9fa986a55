package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and one server and injects faults of the net
// between them. A switch that has returned holds for all bytes that reach the
// proxy from then on.
type Proxy struct {
	upstream string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever a switch moves
	drop    bool
	stall   bool
	dropped int64
	closed  bool
	pairs   map[*pair]struct{}
}

// NewProxy starts a proxy for the server at the address upstream, without
// faults. tb closes it and all its connections.
func NewProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{
		upstream: upstream,
		listener: l,
		changed:  make(chan struct{}),
		pairs:    map[*pair]struct{}{},
	}
	p.pumps.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr is the address clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Lead has new connections lead to another server. Those that are open stay where they are, as
// those to an address that a replica takes over do.
func (p *Proxy) Lead(upstream string) { p.set(func() { p.upstream = upstream }) }

// DropReplies makes replies vanish while on: requests reach the server and are
// executed, but nobody hears of it. A connection that lost a reply is never
// used again, as later replies would be taken for the lost ones: once this is
// switched off it is cut.
func (p *Proxy) DropReplies(on bool) {
	p.set(func() { p.drop = on })
	if on {
		return
	}
	for _, c := range p.live() {
		if c.lossy() {
			c.close()
		}
	}
}

// Dropped is how many bytes of replies have vanished so far. A test that waits
// for it to grow knows that the server has executed something unheard.
func (p *Proxy) Dropped() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Stall holds everything back while on, in both directions. Connections are
// accepted and kept. Switched off, all that was held is delivered.
func (p *Proxy) Stall(on bool) { p.set(func() { p.stall = on }) }

// Cut closes all connections of this moment. New ones are accepted.
func (p *Proxy) Cut() {
	for _, c := range p.live() {
		c.close()
	}
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) live() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pair, 0, len(p.pairs))
	for c := range p.pairs {
		all = append(all, c)
	}
	return all
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.serve(client) })
	}
}

// serve carries one connection until either end or the proxy closes it.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &pair{proxy: p, client: client, server: server, gone: make(chan struct{})}
	defer c.close()
	if !p.add(c) {
		return
	}
	defer p.remove(c)
	var wg sync.WaitGroup
	wg.Go(func() { c.carry(server, client, func(int) bool { return true }) })
	wg.Go(func() { c.carry(client, server, c.heard) })
	wg.Wait()
}

func (p *Proxy) add(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.pairs[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) remove(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}
