package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// front is the HTTP server on a listener.
func (j *serveJob) front(listener net.Listener, handler *serve.Server, con console) front {
	server := serve.HTTP(handler, j.process.config.CallTimeout)
	server.TLSConfig = j.guard.tls()
	scheme := "http"
	if server.TLSConfig != nil {
		scheme = "https"
	}
	_, _ = fmt.Fprintf(con.err, "shardlimit: limits declared: %d; serving HTTP on %s://%s\n",
		len(j.declarations), scheme, listener.Addr())
	j.guard.warn(con, listener.Addr())
	return front{name: "HTTP", leave: handler.Leave,
		serve: func() error {
			err := error(nil)
			if server.TLSConfig != nil {
				err = server.ServeTLS(listener, "", "")
			} else {
				err = server.Serve(listener)
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		},
		stop: func(ctx context.Context) error {
			err := server.Shutdown(ctx)
			if err != nil {
				_ = server.Close()
			}
			return err
		}}
}
