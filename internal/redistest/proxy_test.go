package redistest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// upstream answers each line with the same line, and tells which it has heard.
func upstream(t *testing.T) (addr string, heard <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	lines := make(chan string, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for scan := bufio.NewScanner(c); scan.Scan(); {
					lines <- scan.Text()
					_, _ = io.WriteString(c, scan.Text()+"\n")
				}
			}()
		}
	}()
	return l.Addr().String(), lines
}

// caller is a client of an upstream.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, addr string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) expect(line string) {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := c.in.ReadString('\n'); err != nil || got != line+"\n" {
		c.t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

func (c *caller) expectCut() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := c.in.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || got != "" {
		c.t.Fatalf("got %q, %v; want a closed connection", got, err)
	}
}

// expectSilence can only fail rightly: silence for a moment proves nothing, a
// word in it proves a fault.
func (c *caller) expectSilence() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if got, err := c.in.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v; want silence", got, err)
	}
}

func TestProxyPasses(t *testing.T) {
	addr, _ := upstream(t)
	p := NewProxy(t, addr)
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	for range 100 {
		a.say("a")
		b.say("b")
		a.expect("a")
		b.expect("b")
	}
}

func TestProxyDropReplies(t *testing.T) {
	addr, heard := upstream(t)
	p := NewProxy(t, addr)
	c, unharmed := dial(t, p.Addr()), dial(t, p.Addr())
	unharmed.say("before")
	unharmed.expect("before")
	<-heard
	p.DropReplies(true)
	c.say("lost")
	if got := <-heard; got != "lost" {
		t.Fatalf("upstream heard %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := poll(ctx, func() error {
		if p.Dropped() != int64(len("lost\n")) {
			return errors.New("nothing dropped yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.expectSilence()
	p.DropReplies(false)
	c.expectCut() // and not the reply to something else
	unharmed.say("after")
	unharmed.expect("after")
	fresh := dial(t, p.Addr())
	fresh.say("fresh")
	fresh.expect("fresh")
}

func TestProxyStall(t *testing.T) {
	addr, heard := upstream(t)
	p := NewProxy(t, addr)
	c := dial(t, p.Addr())
	p.Stall(true)
	late := dial(t, p.Addr())
	c.say("held")
	late.say("late")
	c.expectSilence()
	late.expectSilence()
	if len(heard) != 0 {
		t.Errorf("upstream heard %q", <-heard)
	}
	p.Stall(false)
	c.expect("held")
	late.expect("late")
}

func TestClosedPairWaitsForNothing(t *testing.T) {
	addr, _ := upstream(t)
	p := NewProxy(t, addr)
	p.Stall(true)
	p.Delay(time.Hour)
	client, server := net.Pipe()
	c := &pair{proxy: p, client: client, server: server, gone: make(chan struct{})}
	answers := make(chan bool, 2)
	go func() { answers <- c.pass() }()
	go func() { answers <- c.ripe(time.Now()) }()
	c.close()
	for range 2 {
		select {
		case live := <-answers:
			if live {
				t.Error("a closed pair goes on")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a closed pair waits for the stall or the delay to end")
		}
	}
}

func TestProxyCut(t *testing.T) {
	addr, _ := upstream(t)
	p := NewProxy(t, addr)
	c := dial(t, p.Addr())
	c.say("x")
	c.expect("x")
	p.Stall(true)
	c.say("held")
	p.Cut()
	c.expectCut()
	p.Stall(false)
	fresh := dial(t, p.Addr())
	fresh.say("fresh")
	fresh.expect("fresh")
}

func TestProxyDelay(t *testing.T) {
	addr, heard := upstream(t)
	p := NewProxy(t, addr)
	c := dial(t, p.Addr())
	p.Delay(time.Hour)
	c.say("slow")
	<-heard // requests are not delayed
	c.expectSilence()
	p.Delay(0) // replies already held come as well
	c.expect("slow")
	const d = 20 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	c.say("x")
	c.expect("x")
	if took := time.Since(start); took < d {
		t.Errorf("a reply delayed by %v came after %v", d, took)
	}
}

func TestProxyUpstreamDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := NewProxy(t, l.Addr().String())
	_ = l.Close()
	dial(t, p.Addr()).expectCut()
}
