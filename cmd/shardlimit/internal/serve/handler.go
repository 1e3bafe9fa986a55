package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
)

// maxBody is more than the longest name and key need.
const maxBody = 16 << 10

// request is the body of POST /v1/allow.
type request struct {
	Limiter string `json:"limiter"`
	Key     string `json:"key"`
	N       *int64 `json:"n"` // 1 if left out

	// Participant is on whose behalf the call is made; "" is the server itself.
	Participant string   `json:"participant"`
	Weight      *float64 `json:"weight"` // of the participant; 1 if left out
}

// seenBy is the limiter as the participant of the request sees it.
func (r *request) seenBy(limiter *shardlimit.Limiter) (*shardlimit.Limiter, error) {
	switch {
	case r.Participant == "" && r.Weight != nil:
		return nil, fmt.Errorf("%w: a weight needs a participant", shardlimit.ErrInvalidConfig)
	case r.Participant == "":
		return limiter, nil
	case r.Weight == nil:
		return limiter.As(r.Participant, 1), nil
	}
	return limiter.As(r.Participant, *r.Weight), nil
}

// answer is what POST /v1/allow answers with. The names of its fields are a
// promise to programs.
type answer struct {
	Allowed      bool  `json:"allowed"`
	Granted      int64 `json:"granted"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterUS int64 `json:"retry_after_us"`
	ResetAfterUS int64 `json:"reset_after_us"`
	DelayUS      int64 `json:"delay_us"`
	Degraded     bool  `json:"degraded"`
}

type failure struct {
	Error string `json:"error"`
}

// Server is the HTTP interface to a set of limits.
type Server struct {
	limits  Limits
	mux     *http.ServeMux
	leaving atomic.Bool
}

// New serves the limits on POST /v1/allow, its own state on GET /healthz, and what metrics says on
// GET /metrics.
func New(limits Limits, metrics http.Handler) *Server {
	s := &Server{limits: limits, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /v1/allow", s.allow)
	s.mux.HandleFunc("GET /healthz", s.health)
	s.mux.Handle("GET /metrics", metrics)
	return s
}

const (
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
		WriteTimeout: readTimeout + callTimeout + replyTime, IdleTimeout: idleTimeout,
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Leave has /healthz say that the server is about to end, so that no new work is sent to it.
func (s *Server) Leave() { s.leaving.Store(true) }

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.leaving.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // also while Redis is away: the outage policy answers then
}

// allow answers 200 if the permits were granted and 429 if not, with the same
// body; other codes come with {"error": …}.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) {
	req, code, err := read(w, r)
	if err != nil {
		reply(w, code, failure{err.Error()})
		return
	}
	choose := s.limits[req.Limiter]
	if choose == nil {
		reply(w, http.StatusNotFound, failure{fmt.Sprintf("no limiter %q is served here", req.Limiter)})
		return
	}
	n := int64(1)
	if req.N != nil {
		n = *req.N
	}
	limiter, err := choose(req.Key)
	if err == nil {
		limiter, err = req.seenBy(limiter)
	}
	var d shardlimit.Decision
	if err == nil {
		d, err = limiter.AllowN(r.Context(), n)
	}
	if err != nil {
		reply(w, statusOf(err), failure{err.Error()})
		return
	}
	code = http.StatusOK
	if !d.Allowed {
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
	}
	reply(w, code, answer{
		Allowed: d.Allowed, Granted: d.Granted, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfterUS: roundUp(d.RetryAfter), ResetAfterUS: roundUp(d.ResetAfter), DelayUS: roundUp(d.Delay),
		Degraded: d.Degraded,
	})
}

// read is the request, or why there is none. A page in a browser cannot send JSON to another
// site without having asked first, which is not answered here.
func read(w http.ResponseWriter, r *http.Request) (req request, code int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return req, http.StatusUnsupportedMediaType, errors.New("the Content-Type is not application/json")
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&req); err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return req, http.StatusOK, nil
		}
		if err == nil {
			err = errors.New("something follows it")
		}
	}
	code = http.StatusBadRequest
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		code = http.StatusRequestEntityTooLarge
	}
	return req, code, fmt.Errorf(`the body is not {"limiter": "NAME", "key": "KEY", "n": 1}: %w`, err)
}

func roundUp(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func statusOf(err error) int {
	for _, bad := range []error{shardlimit.ErrInvalidName, shardlimit.ErrInvalidConfig, shardlimit.ErrInvalidPermits,
		shardlimit.ErrExceedsLimit} {
		if errors.Is(err, bad) {
			return http.StatusBadRequest
		}
	}
	return http.StatusServiceUnavailable
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}
