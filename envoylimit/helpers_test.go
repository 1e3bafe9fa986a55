package envoylimit_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// everywhere runs a test on nodes in this process and on real servers.
func everywhere(t *testing.T, test func(*testing.T, *shardlimit.Client)) {
	t.Run("embedded", func(t *testing.T) { test(t, connect(t)) })
	t.Run("redis", func(t *testing.T) {
		f, _ := limittest.Independent(t, 2)
		test(t, f.Client(t))
	})
}

// connect is a client of nodes in this process.
func connect(t testing.TB) *shardlimit.Client {
	t.Helper()
	return limittest.InProcess(t, 2).Client(t)
}

func parse(t testing.TB, content string) *rules.Config {
	t.Helper()
	c, err := rules.Parse([]rules.File{{Name: "f.yaml", Content: []byte(content)}})
	limittest.Must(t, err)
	return c
}

// start has a service of a configuration.
func start(t testing.TB, client *shardlimit.Client, content string, o envoylimit.Options) *envoylimit.Service {
	t.Helper()
	s, err := envoylimit.New(client, o)
	limittest.Must(t, err)
	if content != "" {
		limittest.Must(t, s.Apply(t.Context(), parse(t, content)))
	}
	return s
}

// dial serves a service over TCP, and returns a connection.
func dial(t testing.TB, s *envoylimit.Service) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer()
	s.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		limittest.Must(t, <-ended)
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	limittest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask is a request in short: "k=v,l=w" is a descriptor.
func ask(domain string, descriptors ...string) *rls.RateLimitRequest {
	r := &rls.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &ratelimit.RateLimitDescriptor{}
		for part := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(part, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// hits has each descriptor of a request cost so many.
func hits(r *rls.RateLimitRequest, each ...uint64) *rls.RateLimitRequest {
	for i, n := range each {
		r.Descriptors[i].HitsAddend = wrapperspb.UInt64(n)
	}
	return r
}

// asker is a service, or a connection to one.
type asker interface {
	ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error)
}

// remote is a connection as an asker.
type remote struct{ api rls.RateLimitServiceClient }

func (r remote) ShouldRateLimit(ctx context.Context, q *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return r.api.ShouldRateLimit(ctx, q)
}

// verdict is an answer in short: the overall code, and of each descriptor code and rest.
func verdict(t testing.TB, s asker, q *rls.RateLimitRequest) string {
	t.Helper()
	a, err := s.ShouldRateLimit(t.Context(), q)
	limittest.Must(t, err)
	return short(a)
}

func short(a *rls.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(a.GetOverallCode().String())
	for _, st := range a.GetStatuses() {
		b.WriteString(" " + map[rls.RateLimitResponse_Code]string{1: "ok", 2: "over"}[st.GetCode()])
		if l := st.GetCurrentLimit(); l != nil || st.GetLimitRemaining() > 0 {
			b.WriteString(":" + fmt.Sprint(st.GetLimitRemaining()))
		}
	}
	return b.String()
}
