// Package serve answers over HTTP whether calls may pass.
package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/problem"
)

// request is the body of POST /v1/allow.
type request struct {
	Limiter string `json:"limiter"`
	Key     string `json:"key"`
	N       int64  `json:"n"` // 1 if left out; 0 looks, and takes nothing

	// Participant is on whose behalf the call is made; "" is the server itself.
	Participant string  `json:"participant"`
	Weight      float64 `json:"weight"` // of the participant; 1 if left out
}

// Answer is a decision as programs read it: that of POST /v1/allow, and of shardlimit allow --json.
// The names of its fields are a promise to programs. Times are in microseconds, rounded up.
type Answer struct {
	Allowed      bool  `json:"allowed"`
	Granted      int64 `json:"granted"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterUS int64 `json:"retry_after_us"`
	ResetAfterUS int64 `json:"reset_after_us"`
	DelayUS      int64 `json:"delay_us"`
	Degraded     bool  `json:"degraded"`
	Shadowed     bool  `json:"shadowed"`
	// Reason is shardlimit.Reason of a denial.
	Reason string `json:"reason,omitempty"`
}

// AnswerOf is what a decision comes to.
func AnswerOf(d shardlimit.Decision) Answer {
	return Answer{
		Allowed: d.Allowed, Granted: d.Granted, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfterUS: roundUp(d.RetryAfter), ResetAfterUS: roundUp(d.ResetAfter), DelayUS: roundUp(d.Delay),
		Degraded: d.Degraded, Shadowed: d.Shadowed, Reason: d.Reason.String(),
	}
}

func roundUp(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// failure is the problem of what could not be decided. Its code, too, is a promise to programs.
type failure struct {
	problem.Details
	Code string `json:"code"`
}

// refusal is the problem of permits that were not granted.
type refusal struct {
	problem.Details
	Violated []string `json:"violated-policies"`
	Answer
}

// Options are what else a Server needs.
type Options struct {
	// Tokens are those of which a request must bear one; none means that everybody may ask.
	Tokens Tokens
	// Ready tells /readyz which nodes answer.
	Ready func(context.Context) []shardlimit.NodeState
	// Log hears what is none of the business of callers.
	Log *slog.Logger
	// Denied answers GET /v1/denied; nil: there is no such path.
	Denied http.Handler
}

// Server is the HTTP interface to a set of limits. It is safe for concurrent use.
type Server struct {
	http.ServeMux
	Options
	limits  Limits
	leaving atomic.Bool
	unready atomic.Pointer[error] // why, as the log was told; nil: a node answers
	told    atomic.Int64          // when the log was told why a call cannot be decided, in Unix seconds
}

// New serves the limits on POST /v1/allow, its own state on GET /healthz and /readyz, what metrics
// says on GET /metrics, and who is refused on GET /v1/denied.
func New(limits Limits, metrics http.Handler, o Options) *Server {
	s := &Server{Options: o, limits: limits}
	paths := map[string]http.Handler{"POST /v1/allow": s.Tokens.guard(http.HandlerFunc(s.allow)),
		"GET /metrics": s.Tokens.guard(metrics), "GET /healthz": http.HandlerFunc(s.health),
		"GET /readyz": http.HandlerFunc(s.ready)}
	if s.Denied != nil {
		paths["GET /v1/denied"] = s.Tokens.guard(s.Denied)
	}
	for pattern, handler := range paths {
		method, path, _ := strings.Cut(pattern, " ")
		s.Handle(pattern, handler)
		s.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			refuse(w, http.StatusMethodNotAllowed,
				fmt.Errorf("%s is called with %s, not with %s", path, method, r.Method))
		})
	}
	s.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("nothing is served at %q; calls go to POST /v1/allow", r.URL.Path))
	})
	return s
}

// Bounds of a request and of its connection.
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

// allow answers 200 if the permits were granted, and with a problem if not, which has the same
// fields besides.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) {
	req, code, err := read(w, r)
	if err != nil {
		refuse(w, code, err)
		return
	}
	choose := s.limits[req.Limiter]
	if choose == nil {
		refuse(w, http.StatusNotFound, fmt.Errorf("no limiter %q is served here", req.Limiter))
		return
	}
	limiter, err := choose(req.Key)
	switch {
	case err == nil && req.Participant != "":
		limiter = limiter.As(req.Participant, req.Weight)
	case err == nil && req.Weight != 1:
		err = fmt.Errorf("%w: a weight needs a participant", shardlimit.ErrInvalidConfig)
	}
	var d shardlimit.Decision
	var mode shardlimit.Mode
	if err == nil {
		d, mode, err = ask(r.Context(), limiter, req.N)
	}
	if err != nil {
		s.tell(r.Context(), err)
		refuse(w, statusOf(err), err)
		return
	}
	name := problem.Policy(req.Limiter)
	if mode != shardlimit.Shadow && mode != shardlimit.Off {
		httplimit.Describe(w.Header(), httplimit.Draft, httplimit.Policy{Name: name, Limiter: limiter}, d)
	}
	if d.Allowed || req.N == 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(AnswerOf(d)) // the client has gone
		return
	}
	p := problem.QuotaExceeded(fmt.Sprintf("limiter %q does not grant %d now", req.Limiter, req.N))
	problem.Write(w, p.Status, refusal{p, []string{name}, AnswerOf(d)})
}

// closedFor is when to ask a closed limit again.
const closedFor = 15 * time.Second

// ask asks for n permits, or looks what is left if that is 0, and tells the limit's mode.
func ask(ctx context.Context, limiter *shardlimit.Limiter, n int64) (d shardlimit.Decision, _ shardlimit.Mode,
	err error) {
	if n < 0 {
		return d, 0, fmt.Errorf("%w: %d, ask for at least 1, or look with 0", shardlimit.ErrInvalidPermits, n)
	}
	if n != 0 {
		d, err = limiter.AllowN(ctx, n)
		return d, d.Mode(), err
	}
	st, err := limiter.Peek(ctx)
	d = shardlimit.Decision{Allowed: st.Remaining > 0, Limit: st.Limit.Permits, Remaining: st.Remaining,
		RetryAfter: st.RetryAfter, ResetAfter: st.ResetAfter}
	switch st.Limit.Mode {
	case shardlimit.Closed:
		d = shardlimit.Decision{Limit: d.Limit, RetryAfter: closedFor, Reason: shardlimit.ReasonClosed}
	case shardlimit.Off:
		d = shardlimit.Decision{Limit: d.Limit, Allowed: true, Remaining: d.Limit}
	case shardlimit.Shadow:
		d.Allowed, d.Shadowed, d.RetryAfter = true, !d.Allowed, 0
	}
	return d, st.Limit.Mode, err
}

// read is the request, or why there is none. A page in a browser cannot send JSON to another
// site without having asked first, which is not answered here.
func read(w http.ResponseWriter, r *http.Request) (req request, code int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return req, http.StatusUnsupportedMediaType, errors.New("the Content-Type is not application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return req, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	if err == nil {
		req.N, req.Weight = 1, 1
		err = decode(body, &req)
	}
	if err != nil {
		return req, http.StatusBadRequest,
			fmt.Errorf(`the body is not {"limiter": "NAME", "key": "KEY", "n": 1}: %w`, err)
	}
	return req, http.StatusOK, nil
}

// decode reads the body of a request. Errors say nothing of types of Go.
func decode(body []byte, req *request) error {
	if !utf8.Valid(body) { // else keys that differ would become one
		return errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(req)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%q cannot be of the type %s", cmp.Or(wrong.Field, "all of it"), wrong.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if strings.ContainsRune(req.Key+req.Participant, utf8.RuneError) { // what a half of a surrogate pair becomes
		return errors.New("the key or the participant is not UTF-8")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// tellEvery is how often the log is told, in seconds.
const tellEvery = 10

// tell tells the log why there is no decision, unless it was told lately, or callers are told, or
// the client has told the log.
func (s *Server) tell(ctx context.Context, err error) {
	if !errors.Is(told(statusOf(err), err), errUndecided) || errors.As(err, new(*shardlimit.ConfigError)) {
		return
	}
	now, before := time.Now().Unix(), s.told.Load()
	if now-before >= tellEvery && s.told.CompareAndSwap(before, now) {
		s.Log.WarnContext(ctx, "a call cannot be decided", "err", oneLine(err))
	}
}

func statusOf(err error) int {
	for _, bad := range []error{shardlimit.ErrInvalidName, shardlimit.ErrInvalidConfig, shardlimit.ErrInvalidPermits,
		shardlimit.ErrExceedsLimit} {
		if errors.Is(err, bad) {
			return http.StatusBadRequest
		}
	}
	return http.StatusServiceUnavailable
}

// codes tell programs why there was no decision.
var codes = map[int]string{
	http.StatusBadRequest:            "invalid_request",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusNotFound:              "unknown_limiter",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType:  "not_json",
	http.StatusServiceUnavailable:    "unavailable",
}

// errUndecided stands for causes that are none of the caller's business.
var errUndecided = errors.New("the call cannot be decided; the log of the server says why")

// told is an error as callers hear it: where Redis is and what it says is for the log.
func told(status int, err error) error {
	if status != http.StatusServiceUnavailable {
		return err
	}
	for _, short := range []error{errLeaving, errNoNode, errMistake, shardlimit.ErrUnavailable, shardlimit.ErrClosed,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, short) {
			return short
		}
	}
	return errUndecided
}

// refuse answers that there was no decision, in one line.
func refuse(w http.ResponseWriter, status int, err error) {
	code := codes[status]
	if errors.Is(err, shardlimit.ErrExceedsLimit) {
		code = "exceeds_limit"
	}
	problem.Write(w, status, failure{problem.Of(status, oneLine(told(status, err))), code})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

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
// for the others find it. Which ones do not is for the log, once, because anybody may ask.
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
