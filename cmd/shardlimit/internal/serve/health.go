package serve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// Why health is bad.
var (
	errLeaving = errors.New("shutting down")
	errNoNode  = errors.New("no node answers")
	errMistake = errors.New("no node serves: a mistake in the configuration, which the log tells")
)

// Leave has /healthz and /readyz say that the server is about to end, so that no new work is sent
// to it.
func (s *Server) Leave() { s.leaving.Store(true) }

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.leaving.Load() {
		refuse(w, http.StatusServiceUnavailable, errLeaving)
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // also while Redis is away: to start anew would not help
}

// ready answers 200 if a node answers: one is enough, because its shards are served then, and calls
// for the others find it. Which ones do not is for the log,
// once, because anybody may ask.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	nodes := s.Ready(r.Context())
	answers, why := len(nodes) == 0, &errMistake
	for _, n := range nodes {
		answers = answers || n.Err == nil
		if !errors.As(n.Err, new(*shardlimit.ConfigError)) {
			why = &errNoNode
		}
	}
	if answers {
		s.unready.Store(nil)
		s.health(w, r)
		return
	}
	if s.unready.Swap(why) != why {
		for _, n := range nodes {
			s.Log.WarnContext(r.Context(), "not ready: no node answers", "node", n.Name, "err", oneLine(n.Err))
		}
	}
	refuse(w, http.StatusServiceUnavailable, *why)
}
