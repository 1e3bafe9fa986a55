package limittest

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// PatientFor gives calls more time than a healthy node on a busy machine takes.
func PatientFor(d time.Duration) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.CallTimeout = d }
}

// OnOutage gives clients an outage policy.
func OnOutage(p shardlimit.OutagePolicy) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.OnOutage = p }
}

// AfterLoss gives clients a policy for nodes that lost their memory.
func AfterLoss(p shardlimit.LossPolicy) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.AfterLoss = p }
}

// Algorithms are all there are.
var Algorithms = []shardlimit.Algorithm{
	shardlimit.SlidingLog, shardlimit.SlidingCounter, shardlimit.FixedWindow, shardlimit.TokenBucket,
	shardlimit.LeakyBucket,
}

// Places are where a limit can be.
var Places = map[string]func(testing.TB) Fleet{
	"embedded":   func(tb testing.TB) Fleet { return InProcess(tb, 3) },
	"standalone": Standalone,
	"four nodes": func(tb testing.TB) Fleet { f, _ := Independent(tb, 4); return f },
	"cluster":    func(tb testing.TB) Fleet { f, _ := Clustered(tb, 0); return f },
}

// Bursty reports whether an algorithm has a burst.
func Bursty(a shardlimit.Algorithm) bool {
	return a == shardlimit.TokenBucket || a == shardlimit.LeakyBucket
}

// PerParticipant is n permits per window for every participant.
func PerParticipant(n int64, per time.Duration) shardlimit.Limit {
	return shardlimit.Limit{Permits: n, Per: per, Scope: shardlimit.PerParticipant}
}

// TakenOverWithin is how long after a node was lost the others have all of a limit a second: until
// it is noticed, nobody relies on it, and nothing matters that it granted; and ten times that for
// a busy machine.
const TakenOverWithin = 10 * (failoverAfter + 6*time.Second + 4*time.Second)

const failoverAfter = time.Second

// Wary has nodes put out that are silent for a second.
func Wary(c *shardlimit.Config) { c.NodeTimeout = failoverAfter }

// TakesOver has limits declared whose lost nodes are taken over after the usual time.
func TakesOver(c *shardlimit.Config) { c.NodeTimeout = shardlimit.DefaultNodeTimeout }

// NodeFailure is a way in which a node breaks, and how it comes back.
type NodeFailure struct {
	Name  string
	Cause func(*ProxiedNode)
	Cure  func(*ProxiedNode)
}

// NodeFailures are ways in which a node breaks.
var NodeFailures = []NodeFailure{
	{"refuses", func(p *ProxiedNode) { p.Server.Kill(); p.Proxy.Cut() }, func(p *ProxiedNode) { p.Server.Restart() }},
	{"stalls", func(p *ProxiedNode) { p.Proxy.Stall(true) }, func(p *ProxiedNode) { p.Proxy.Stall(false) }},
	{"is paused", func(p *ProxiedNode) { p.Server.Pause() }, func(p *ProxiedNode) { p.Server.Resume() }},
	{"loses replies", func(p *ProxiedNode) { p.Proxy.DropReplies(true) },
		func(p *ProxiedNode) { p.Proxy.DropReplies(false) }},
}
