package limittest

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

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
