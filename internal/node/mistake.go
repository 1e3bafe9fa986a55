package node

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// mistake is an answer that waiting does not change: what the Config or the server's rights say is
// wrong.
type mistake struct {
	cause  error
	remedy string
}

// remedies tell what to do about what a server answers, by how the answer begins.
var remedies = []struct{ said, remedy string }{
	{"NOAUTH", "set Username and Password"},
	{"WRONGPASS", "check Username and Password"},
	{"AUTH ", "the server has no password: leave Password empty, or set one there"},
	{"NOPERM", needsRights},
	{"The user executing the script", needsRights},
	{"ACL failure in script", needsRights},
	{"unknown command", lacks},
	{"Unknown Redis command", lacks}, // within a script
	{"Unknown command", lacks},       // likewise, of Valkey
	{"INFO server tells no", lacks},
	{"DB index is out of range", "check SelectDB"},
	{"invalid DB index", "check SelectDB"},
	{"SELECT is not allowed", "a cluster has one database: leave SelectDB 0"},
	{moved, "it is a node of a cluster: list the cluster as one node, with ForceSingleClient unset"},
	{"This instance has cluster support disabled", "it is no cluster: list one address a node"},
	{"No such master", "check Sentinel.MasterSet"},
}

const needsRights = "give the user the rights that docs/howto/secure.md lists; ACL LOG tells which one it lacks"

const lacks = "the server lacks a command, or it is renamed, or it is a Sentinel"

// notMaster is what a server answers that does not write. Of one that has never written for this
// process it is a mistake to list it; else it was a master, and another one takes its place.
const notMaster = "READONLY"

// noRedis is what rueidis says of an answer that is not in the protocol of Redis.
const noRedis = "received unknown message type"

// moved is what one node of a cluster answers. Of a client that follows it, it is no mistake.
const moved = "MOVED"

// remote are the alerts of TLS by which a server refuses the certificate of a client, or that it
// shows none.
var remote = []string{"certificate required", "bad certificate", "handshake failure", "unknown certificate authority"}

// refusesCertificate reports whether the server ended the handshake because of the client's
// certificate.
func refusesCertificate(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "remote error" &&
		slices.ContainsFunc(remote, func(alert string) bool { return strings.Contains(op.Error(), alert) })
}

// mistaken returns what is wrong with the Config if the error tells that, else nil. written tells
// that the server has carried out writes for this process.
func mistaken(err error, written bool) *mistake {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority):
		return &mistake{err, "check TLSConfig: RootCAs and ServerName must fit the server's certificate"}
	case refusesCertificate(err):
		return &mistake{err, "check TLSConfig: the server refuses it; it may want a certificate"}
	case errors.As(err, &record):
		return &mistake{err, "the server does not speak TLS there: write redis://, set no TLSConfig, or check the port"}
	case errors.Is(err, errWantsTLS):
		return &mistake{err, "write rediss://, or set TLSConfig"}
	case err != nil && !written && strings.Contains(err.Error(), noRedis):
		return &mistake{err, "what answers there is not Redis: check host and port"}
	}
	text, ok := script.Said(err)
	if !ok {
		return nil
	}
	for _, r := range remedies {
		if strings.HasPrefix(text, r.said) {
			return &mistake{errors.New(strings.TrimRight(text, ".")), r.remedy}
		}
	}
	if strings.HasPrefix(text, notMaster) && !written {
		return &mistake{errors.New(strings.TrimRight(text, ".")),
			"it is a replica: list its master, or the set with Sentinel"}
	}
	return nil
}

// Mistakes are errors of nodes that waiting does not mend, one each, joined.
type Mistakes struct{ error }

// Unwrap returns them.
func (m *Mistakes) Unwrap() error { return m.error }

// Mistaken returns what is wrong with the nodes of the Config that keep records, if the others of
// these are no majority. While it is not known which do, they are all nodes.
func (f *Fleet) Mistaken(keep []string) error {
	var nodes []*Node
	roster := f.Roster()
	for _, name := range keep {
		if n := roster.Node(name); n != nil {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		for _, name := range roster.Names() {
			nodes = append(nodes, roster.Listed(name))
		}
	}
	return mistakes(nodes, len(nodes)/2+1, func(n *Node) *mistake { return cmp.Or(n.mistake.Load(), n.votes.Load()) })
}

// Mistaken returns what is wrong with all of these nodes. why returns why a call to one failed, or
// was not sent; nil if that is not known. It tells even if other calls were served there since.
func Mistaken(nodes []*Node, why func(*Node) error) error {
	return mistakes(nodes, 1, func(n *Node) *mistake {
		if m := n.mistake.Load(); m != nil {
			return m
		}
		return n.mistaken(why(n))
	})
}

// mistakes returns what is wrong with nodes, if the rest of them are fewer than are needed: whether
// these answer does not matter then.
func mistakes(nodes []*Node, needed int, of func(*Node) *mistake) error {
	var each []error
	for _, n := range nodes {
		if m := of(n); m != nil {
			each = append(each, n.env.Mistake(n.Name, m.cause, m.remedy))
		}
	}
	if len(each) == 0 || len(nodes)-len(each) >= needed {
		return nil
	}
	return &Mistakes{errors.Join(each...)}
}

// faults are why a node cannot serve as it is configured, or not keep records, which takes other
// rights; nil: it can, as far as known.
type faults struct {
	mistake, votes atomic.Pointer[mistake]
	written        atomic.Bool // it has carried out what writes
}

// serves notes that the node carried out a call. Takes and looks write.
func (f *faults) serves(looks bool, about telemetry.Operation) {
	switch {
	case about == telemetry.Vote:
		if f.votes.Load() != nil {
			f.votes.Store(nil)
		}
	case looks || about == telemetry.Take:
		if !f.written.Load() {
			f.written.Store(true)
		}
		if f.mistake.Load() != nil {
			f.mistake.Store(nil)
		}
	}
}

// mistaken returns what is wrong with the Config if the node's error tells that, else nil.
func (n *Node) mistaken(err error) *mistake {
	m := mistaken(err, n.written.Load())
	if m != nil && n.Spread() && strings.HasPrefix(m.cause.Error(), moved) {
		return nil // the cluster is being arranged
	}
	return m
}

// blame notes why the node did not serve a call, and reports whether that is a mistake. The log
// hears of a mistake once.
func (n *Node) blame(about telemetry.Operation, err error) bool {
	m, last := n.mistaken(err), &n.mistake
	if about == telemetry.Vote {
		last = &n.votes
	}
	before := last.Swap(m)
	if m == nil { // who does not answer at all has no right or wrong
		n.mistake.Store(nil)
		n.votes.Store(nil)
	}
	if m != nil && (before == nil || before.cause.Error() != m.cause.Error()) {
		n.env.Log.Error("node cannot be used as it is configured", "node", n.Name, "err", m.cause, "remedy", m.remedy)
	}
	return m != nil
}
