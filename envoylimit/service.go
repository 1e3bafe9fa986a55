package envoylimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// MaxDescriptors is how many descriptors a request may have. Each is decided beside the others.
const MaxDescriptors = 256

// Errors of requests. gRPC clients see the code UNKNOWN, as of envoyproxy/ratelimit, but for
// those of type invalid; Envoy then does what failure_mode_deny says.
var (
	// ErrNoDomain: the request names no domain.
	ErrNoDomain = errors.New("envoylimit: rate limit domain must not be empty")
	// ErrNoDescriptors: the request has no descriptor.
	ErrNoDescriptors = errors.New("envoylimit: rate limit descriptor list must not be empty")
	// ErrTooManyDescriptors: the request has more than MaxDescriptors. The code is
	// INVALID_ARGUMENT.
	ErrTooManyDescriptors error = invalid("envoylimit: the request has too many descriptors")
	// ErrUnknownField: a descriptor has a field that this version does not know, such as
	// is_negative_hits. The code is INVALID_ARGUMENT.
	ErrUnknownField error = invalid("envoylimit: the descriptor has a field that is not known")
	// ErrNoConfig: no configuration was applied yet.
	ErrNoConfig = errors.New("envoylimit: no rate limit configuration is loaded")
	// ErrOverride: the limit that a descriptor brings along cannot be used. The text says why,
	// the code is INVALID_ARGUMENT.
	ErrOverride error = invalid("envoylimit: the limit of the descriptor cannot be used")
)

// invalid is an error that gRPC clients see as INVALID_ARGUMENT.
type invalid string

func (e invalid) Error() string { return string(e) }

func (e invalid) GRPCStatus() *status.Status { return status.New(codes.InvalidArgument, string(e)) }

// ErrInvalidOptions: New was given Options that cannot work. The text says what to change.
var ErrInvalidOptions = errors.New("envoylimit: invalid options")

// Charge says what a request with several descriptors costs.
type Charge uint8

const (
	// Together has the descriptors of a request decide together, as shardlimit.All does: one that
	// is refused costs nothing, and what other descriptors granted is given back. So a client that
	// is over one limit does not use up its other ones.
	Together Charge = iota
	// Each charges every descriptor for itself, as envoyproxy/ratelimit does: whatever the others
	// say, and as many of its hits as there are if they are not all there. It is right where hits
	// are reported after the fact, such as with apply_on_stream_done.
	Each
)

// Options are what else can be said of a Service. The zero value is ready for use.
type Options struct {
	// Algorithm that counts; the zero value is SlidingLog, which is exact. FixedWindow counts as
	// envoyproxy/ratelimit does. LeakyBucket is not possible, because Envoy does not wait.
	Algorithm shardlimit.Algorithm
	// Charge says what requests with several descriptors cost; the zero value is Together.
	Charge Charge
	// Shadow answers every request with OK; the statuses of the descriptors stay what they are.
	Shadow bool
	// Headers has Envoy add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to the
	// response.
	Headers bool
	// MeterProvider for the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// Logger hears of configurations; nil means none.
	Logger *slog.Logger
}

// Service is the rate limit service. Requests are answered while a configuration is applied, each
// under one of the two. It is safe for concurrent use.
type Service struct {
	rls.UnimplementedRateLimitServiceServer

	client *shardlimit.Client
	o      Options
	meters *meters
	health checks

	live      atomic.Pointer[generation] // nil before the first configuration
	seen      atomic.Pointer[reading]    // by Load and Follow
	applying  sync.Mutex
	overrides [rules.Month + 1]handle // of limits that requests bring along, by their units
}

// generation is a configuration in force. It is immutable.
type generation struct {
	config *rules.Config
	limits map[*rules.Rule]*limit
}

// New returns a service without a configuration. The error is ErrInvalidOptions. The client stays
// the caller's, who closes it after the gRPC server.
func New(client *shardlimit.Client, o Options) (*Service, error) {
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: there is no client", ErrInvalidOptions)
	case o.Algorithm > shardlimit.TokenBucket:
		return nil, fmt.Errorf("%w: Algorithm is %s; choose one that does not make callers wait, such as %s",
			ErrInvalidOptions, o.Algorithm, shardlimit.SlidingLog)
	case o.Charge > Each:
		return nil, fmt.Errorf("%w: Charge is %d; choose Together or Each", ErrInvalidOptions, o.Charge)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMeters(o.MeterProvider)
	if err != nil {
		return nil, err
	}
	s := &Service{client: client, o: o, meters: m, health: checks{health.NewServer()}}
	s.serving(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return s, nil
}

// Register registers the service, and the health service grpc.health.v1, with a gRPC server. Health
// is SERVING from the first configuration on, for the server as a whole, for "ratelimit" and for
// envoy.service.ratelimit.v3.RateLimitService. Register panics if the server has one of them.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	rls.RegisterRateLimitServiceServer(server, s)
	grpc_health_v1.RegisterHealthServer(server, s.health)
}

// Leave has the health service say NOT_SERVING from now on, so that no new work is sent. Requests
// are still answered. It may be called more than once.
func (s *Service) Leave() { s.health.Shutdown() }

// checks is the health service without Watch: a server cannot stop in good order while a stream is
// open.
type checks struct{ *health.Server }

// Watch tells clients, as the protocol has it, that there is none.
func (checks) Watch(*grpc_health_v1.HealthCheckRequest, grpc_health_v1.Health_WatchServer) error {
	return status.Error(codes.Unimplemented, "ask with Check")
}

func (s *Service) serving(as grpc_health_v1.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", "ratelimit", rls.RateLimitService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, as)
	}
}

// Apply puts a configuration in force. Requests go on meanwhile. Counts are kept: a limit that was
// changed, and was used by this process, is changed on Redis before Apply returns. Others are when
// they are first used.
//
// The error tells of limits that could not be changed until ctx ended. The configuration is in
// force all the same, and each such limit is changed when it is used and Redis is there.
func (s *Service) Apply(ctx context.Context, config *rules.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	next := &generation{config: config, limits: make(map[*rules.Rule]*limit, len(config.Rules()))}
	former := make(map[string]*limit)
	if old := s.live.Load(); old != nil {
		for _, l := range old.limits {
			former[l.id()] = l
		}
	}
	for _, rule := range config.Rules() {
		l := newLimit(s, rule)
		if was := former[l.id()]; was != nil {
			l.follow(was)
		}
		next.limits[rule] = l
	}
	s.live.Store(next)
	s.serving(grpc_health_v1.HealthCheckResponse_SERVING)
	var errs []error
	for _, l := range next.limits {
		if l.changed() {
			l.handle.setting.Lock()
			errs = append(errs, l.set(ctx))
			l.handle.setting.Unlock()
		}
	}
	return errors.Join(errs...)
}
