package serve

import (
	"net/http"
	"time"
)

const (
	maxBody     = 16 << 10         // bytes, more than the longest name and key need
	maxHeader   = 16 << 10         // bytes of a request's head
	headTimeout = 5 * time.Second  // to read a request's head
	readTimeout = 30 * time.Second // to read a request
	idleTimeout = 2 * time.Minute  // between requests
	replyTime   = 10 * time.Second // to write a response
)

// HTTP is a server for the handler, whose decisions take at most callTimeout. No client can
// hold a connection for longer than it takes to read, decide and answer.
func HTTP(handler http.Handler, callTimeout time.Duration) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headTimeout, ReadTimeout: readTimeout,
		WriteTimeout: readTimeout + callTimeout + replyTime, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
}
