package service

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answerTimeout bounds the wait for an answer, so that a server that hangs is an error.
const answerTimeout = 20 * time.Second

// conns are one connection a caller, which do no more for a request than they must: net/http's own
// client would take as much of the machine as the server.
type conns []conn

func dialWeb(addr string, callers int) (Callers, error) {
	all := make(conns, callers)
	for i := range all {
		all[i].addr = addr
	}
	return all, nil
}

// Allow makes a request with the key and tells whether it was allowed.
func (all conns) Allow(ctx context.Context, caller int, key string) (bool, error) {
	c := &all[caller]
	status, err := c.get(ctx, key)
	switch {
	case err != nil:
		c.close()
		return false, err
	case status == http.StatusOK:
		return true, nil
	case status == http.StatusTooManyRequests:
		return false, nil
	}
	return false, fmt.Errorf("status %d", status)
}

// Close closes the connections; another request opens one anew.
func (all conns) Close() {
	for i := range all {
		all[i].close()
	}
}

// conn is one of them. It connects with the first request, and anew when it is lost.
type conn struct {
	addr    string
	conn    net.Conn // nil: none is open
	in      *bufio.Reader
	request []byte
	until   time.Time // when the deadline that is set comes
}

func (c *conn) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *conn) get(ctx context.Context, key string) (status int, err error) {
	if err := c.open(ctx); err != nil {
		return 0, err
	}
	// A deadline costs the generator time: it is moved only once in a while.
	if now := time.Now(); c.until.Sub(now) < answerTimeout/2 {
		c.until = now.Add(answerTimeout)
		if err := c.conn.SetDeadline(c.until); err != nil {
			return 0, err
		}
	}
	c.request = append(c.request[:0], "GET / HTTP/1.1\r\nHost: gateway\r\n"+keyHeader+": "...)
	c.request = append(append(c.request, key...), "\r\n\r\n"...)
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	return readAnswer(c.in)
}

func (c *conn) open(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn, c.in, c.until = conn, bufio.NewReader(conn), time.Time{}
	return nil
}

// readAnswer reads an answer to its end and returns its status. The answers here tell their length.
func readAnswer(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if fields := strings.Fields(string(line)); len(fields) >= 2 {
		status, err = strconv.Atoi(fields[1])
	}
	if err != nil || status == 0 {
		return 0, fmt.Errorf("no status in %q", line)
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			break
		}
		if string(name) == "Content-Length" {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("status %d, and no length", status)
	}
	_, err = in.Discard(length)
	return status, err
}
