package serve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// Leave has /healthz and /readyz say that the server is about to end, so that no new work is sent
// to it.
func (s *Server) Leave() { s.leaving.Store(true) }

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.leaving.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // also while Redis is away: to start anew would not help
}

const mistake = "no node serves: a mistake in the configuration, which the log tells"

// ready answers 200 if a node answers: one is enough, because its shards are served then, and calls
// for the others find it. Which ones do not is for the log, because anybody may ask.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	var nodes []shardlimit.NodeState
	if s.Ready != nil {
		nodes = s.Ready(r.Context())
	}
	answers, mistaken := s.Ready == nil, len(nodes) > 0
	for _, n := range nodes {
		answers = answers || n.Err == nil
		mistaken = mistaken && errors.As(n.Err, new(*shardlimit.ConfigError))
	}
	s.Outage.ready(r.Context(), answers, nodes)
	switch {
	case s.leaving.Load():
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	case !answers && mistaken:
		http.Error(w, mistake, http.StatusServiceUnavailable)
	case !answers:
		http.Error(w, "no node answers", http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprintln(w, "ok")
	}
}
