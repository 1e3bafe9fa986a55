package envoylimit

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// watched is the health service. A server cannot stop in good order while a stream is open, so
// those of Watch end with left.
type watched struct {
	*health.Server
	left context.Context
}

// Watch tells how the service is until it leaves.
func (w watched) Watch(in *grpc_health_v1.HealthCheckRequest, to grpc_health_v1.Health_WatchServer) error {
	ctx, end := context.WithCancel(to.Context())
	defer end()
	defer context.AfterFunc(w.left, end)()
	err := w.Server.Watch(in, watching{to, ctx})
	if w.left.Err() == nil {
		return err
	}
	_ = to.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING})
	return status.Error(codes.Unavailable, "the service leaves")
}

// watching is a stream with another context.
type watching struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

func (w watching) Context() context.Context { return w.ctx }
