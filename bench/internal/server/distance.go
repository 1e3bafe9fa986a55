package server

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Distance is a way to a server, on which whatever is sent takes a while: half of a round trip in
// either direction.
type Distance struct {
	listener net.Listener
	server   string
	half     time.Duration

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// At starts a way to the server that takes so long there and back.
func At(server string, roundTrip time.Duration) (*Distance, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &Distance{listener: l, server: server, half: roundTrip / 2}
	go d.serve()
	return d, nil
}

// Addr returns where the way begins.
func (d *Distance) Addr() string { return d.listener.Addr().String() }

// Close ends the way and all connections on it.
func (d *Distance) Close() {
	_ = d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.conns {
		_ = c.Close()
	}
}

func (d *Distance) serve() {
	for {
		here, err := d.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", d.server)
		if err = errors.Join(err, d.keep(here, there)); err != nil {
			_ = here.Close()
			if there != nil {
				_ = there.Close()
			}
			continue
		}
		go d.carry(here, there)
		go d.carry(there, here)
	}
}

// keep notes connections, which Close closes.
func (d *Distance) keep(conns ...net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	for _, c := range conns {
		if c != nil {
			d.conns = append(d.conns, c)
		}
	}
	return nil
}

// sent is what came from one end, and when it is to arrive at the other.
type sent struct {
	at   time.Time
	data []byte
}

// carry carries what comes from one end to the other, each piece as long after it came.
func (d *Distance) carry(from, to net.Conn) {
	onTheWay := make(chan sent, 1<<16) // so what is read never waits for what is written
	go func() {
		defer to.Close()
		for s := range onTheWay {
			time.Sleep(time.Until(s.at))
			if _, err := to.Write(s.data); err != nil {
				return
			}
		}
	}()
	defer close(onTheWay)
	for buffer := make([]byte, 1<<16); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			onTheWay <- sent{time.Now().Add(d.half), append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			return
		}
	}
}
