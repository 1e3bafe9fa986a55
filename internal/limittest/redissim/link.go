package redissim

import (
	"context"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/rueidis"
)

// silence is how long rueidis waits for a reply before it gives the connection up.
const silence = time.Second

// Fate is what becomes of one command.
type Fate struct {
	Refused   bool          // there is no connection
	There     time.Duration // how long the command is on its way
	Back      time.Duration // how long the reply is
	Lost      bool          // the command never arrives
	ReplyLost bool
}

// Link is a client of a Server. Commands do what their caller's context says about waiting, and are
// carried out when they arrive, whether or not somebody still waits.
type Link struct {
	rueidis.Client // nil: what a limiter does not call
	server         *Server
	fate           func(args []string) Fate
	hold           func() // called before a command leaves and before its reply is read; may sleep
}

// NewLink returns a way to the server on which commands have the fate that is asked for each. hold
// is called before a command leaves and before its reply is read: a suspended process sleeps there.
func NewLink(server *Server, fate func(args []string) Fate, hold func()) *Link {
	return &Link{server: server, fate: fate, hold: hold}
}

// B makes commands for a client that is not a cluster's.
func (l *Link) B() rueidis.Builder {
	const noSlot = uint16(1 << 15)
	var b rueidis.Builder
	*(*uint16)(unsafe.Pointer(&b)) = noSlot
	return b
}

// Mode is that of a lone server.
func (l *Link) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// Close does nothing: whoever made the link drops it.
func (l *Link) Close() {}

var errRefused = &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}

// Do sends a command and waits for the reply, at most until ctx ends.
func (l *Link) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return l.DoMulti(ctx, cmd)[0]
}

// DoMulti sends commands in one pipeline and waits for all replies, at most until ctx ends. The way
// is that of the first. Behind a command that is lost none arrives.
func (l *Link) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if len(multi) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return failed(err, len(multi))
	}
	l.hold() // a process that is suspended here sends when it goes on: its timers stood still, too
	var way Fate
	var arriving [][]string
	for i, cmd := range multi {
		args := cmd.Commands()
		fate := l.fate(args)
		if i == 0 {
			way = fate
		}
		way.Lost, way.ReplyLost = way.Lost || fate.Lost, way.ReplyLost || fate.ReplyLost
		if !way.Lost {
			arriving = append(arriving, args)
		}
	}
	if way.Refused {
		return failed(errRefused, len(multi))
	}
	answer := make(chan []rueidis.RedisResult, 1)
	if len(arriving) > 0 {
		time.AfterFunc(way.There, func() {
			l.server.arrives(func() {
				replies := make([]rueidis.RedisResult, len(arriving))
				for i, args := range arriving {
					replies[i] = resultOf(l.server.Do(args))
				}
				if !way.Lost && !way.ReplyLost {
					time.AfterFunc(way.Back, func() { answer <- replies })
				}
			})
		})
	}
	given := time.NewTimer(silence)
	defer given.Stop()
	var ended error
	select {
	case r := <-answer:
		l.hold()
		return r
	case <-ctx.Done():
		ended = ctx.Err()
	case <-given.C:
		ended = io.ErrUnexpectedEOF
	}
	l.hold()
	select {
	case r := <-answer: // it came while the process was suspended
		return r
	default:
		return failed(ended, len(multi))
	}
}

// direct is a link on which nothing takes time.
type direct struct{ *Link }

// Direct returns a client whose commands are carried out at once, on the goroutine of the caller.
// It needs no Serve.
func (s *Server) Direct() rueidis.Client { return direct{NewLink(s, nil, nil)} }

// Do carries out a command.
func (d direct) Do(_ context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return resultOf(d.server.Do(cmd.Commands()))
}

// DoMulti carries out commands one after the other.
func (d direct) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	all := make([]rueidis.RedisResult, len(multi))
	for i, cmd := range multi {
		all[i] = d.Do(ctx, cmd)
	}
	return all
}

// Do carries out one command at once.
func (s *Server) Do(args []string) any {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	return s.do(args)
}
