package envoy

import (
	"context"
	"errors"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Domain is the domain of all requests.
const Domain = "bench"

// Request asks for one hit of a descriptor with one entry.
func Request(key, value string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: Domain, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}}
}

// Callers are connections to a service, which callers share, as each worker thread of an Envoy has
// one.
type Callers struct{ conns []*grpc.ClientConn }

// Dial makes so many connections.
func Dial(addr string, n int) (*Callers, error) {
	c := &Callers{}
	for range n {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Allow asks the service; caller chooses the connection.
func (c *Callers) Allow(ctx context.Context, caller int, r *rls.RateLimitRequest) (bool, error) {
	answer, err := rls.NewRateLimitServiceClient(c.conns[caller%len(c.conns)]).ShouldRateLimit(ctx, r)
	if err != nil {
		return false, err
	}
	switch code := answer.GetOverallCode(); code {
	case rls.RateLimitResponse_OK:
		return true, nil
	case rls.RateLimitResponse_OVER_LIMIT:
		return false, nil
	default:
		return false, fmt.Errorf("the code is %s", code)
	}
}

// Close closes the connections.
func (c *Callers) Close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// Probe is a probe for Start: it asks for a descriptor that has no rule.
func Probe(ctx context.Context, addr string) error {
	c, err := Dial(addr, 1)
	if err != nil {
		return err
	}
	defer c.Close()
	allowed, err := c.Allow(ctx, 0, Request("probe", ""))
	if err == nil && !allowed {
		err = errors.New("it refuses what has no rule")
	}
	return err
}
