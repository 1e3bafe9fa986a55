package httplimit_test

import (
	"bufio"
	"net"
	"net/http"
	"testing"

	"github.com/shardlimit/shardlimit/httplimit"
)

// net/http makes a GET again whose reused connection broke. A server that has read it and is then
// gone has been asked, so what the request took is used.
func TestARequestThatTheServerReadIsUsedUp(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan int)
	go func() {
		requests := 0
		defer func() { read <- requests }()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		requests++
		if _, err := conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
			return
		}
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		requests++
		_ = listener.Close() // so the next attempt finds nobody
	}()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	w := &lender{got: func(int) {}}
	client := http.Client{Transport: &httplimit.Transport{Base: base,
		Permits: func(*http.Request) httplimit.Waiter { return w }}}
	ask := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	err = ask()
	if requests := <-read; err == nil || requests != 2 || w.asked != 2 || w.back != 0 {
		t.Errorf("%v: the server read %d requests, %d were taken and %d given back", err, requests, w.asked, w.back)
	}
	if err := ask(); err == nil || w.asked != 3 || w.back != 1 {
		t.Errorf("nobody is there: %v, %d were taken and %d given back", err, w.asked, w.back)
	}
}
