// Package web is a small HTTP server on loopback and a client for it that costs little, so that
// what is measured is the server.
package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// KeyHeader carries the API key of a request.
const KeyHeader = "X-Api-Key"

// Server serves a handler on loopback.
type Server struct {
	listener net.Listener
	http     http.Server
}

// Serve begins to serve the handler.
func Serve(h http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, http: http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Addr is where it serves.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends it, and the connections to it.
func (s *Server) Close() { _ = s.http.Close() }

// Conn is a connection that is kept alive. For one goroutine.
type Conn struct {
	net.Conn
	in   *bufio.Reader
	text []byte // of the request
}

// Dial connects to a server.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, in: bufio.NewReader(c)}, nil
}

// Get asks for "/" with an API key, and returns the status of the answer.
func (c *Conn) Get(key string) (status int, err error) {
	c.text = append(c.text[:0], "GET / HTTP/1.1\r\nHost: bench\r\n"+KeyHeader+": "...)
	c.text = append(append(c.text, key...), "\r\n\r\n"...)
	if _, err := c.Write(c.text); err != nil {
		return 0, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("no status in %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	return status, c.skip()
}

// skip reads the rest of an answer, whose length the server tells.
func (c *Conn) skip() error {
	body := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		const length = "Content-Length: "
		if len(line) > len(length) && string(line[:len(length)]) == length {
			if body, err = strconv.Atoi(strings.TrimSpace(string(line[len(length):]))); err != nil {
				return err
			}
		}
	}
	if body < 0 {
		return errors.New("the answer has no length")
	}
	_, err := c.in.Discard(body)
	return err
}
