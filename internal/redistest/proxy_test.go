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
