package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// compared is a configuration with every feature that both services have. Its windows are so long
// that none ends while the test runs, but perhaps at midnight.
const compared = `
domain: bench
descriptors:
  - {key: user, rate_limit: {name: users, unit: day, requests_per_unit: 9}}
  - {key: user, value: none, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: user, value: root, rate_limit: {unlimited: true}}
  - {key: user, value: vip-*, rate_limit: {unit: week, requests_per_unit: 14}}
  - {key: group, value: g-*, share_threshold: true, rate_limit: {unit: month, requests_per_unit: 11}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: more, rate_limit: {unit: day, requests_per_unit: 20, replaces: [{name: users}]}}
  - key: plan
    value: trial
    rate_limit: {unit: day, requests_per_unit: 30}
    descriptors:
      - {key: call, value: send, rate_limit: {unit: day, requests_per_unit: 5}}
      - {key: call, rate_limit: {unit: day, requests_per_unit: 7}}
  - key: plan
    descriptors:
      - {key: call, rate_limit: {unit: day, requests_per_unit: 12}}
`

// descriptors are what requests are made of: key=value, with commas between entries.
var descriptors = []string{"user=ann", "user=bob", "user=none", "user=root", "user=vip-a", "user=vip-b", "group=g-1",
	"group=g-2", "group=other", "tried=x", "more=ann", "plan=trial", "plan=trial,call=send", "plan=trial,call=read",
	"plan=paid,call=send", "plan=paid,call=read", "call=send", "nobody=x", "user=eve,extra=1", "plan=paid"}

// drawRequest draws a request of up to four descriptors, some with hits of their own.
func drawRequest(r *rand.Rand) *rls.RateLimitRequest {
	q := &rls.RateLimitRequest{Domain: "bench"}
	if r.IntN(4) == 0 {
		q.HitsAddend = uint32(1 + r.IntN(4))
	}
	for _, i := range r.Perm(len(descriptors))[:1+r.IntN(4)] {
		d := &ratelimit.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(descriptors[i], ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		if r.IntN(8) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(1 + r.IntN(3)))
		}
		q.Descriptors = append(q.Descriptors, d)
	}
	return q
}

// tellOfOne reports whether both services' header fields tell of the same limit: ours leave out
// limits in shadow and of nothing, and of several with nothing left choose the longest wait.
func tellOfOne(q *rls.RateLimitRequest, a *rls.RateLimitResponse) bool {
	empty := 0
	for i, s := range a.GetStatuses() {
		first := q.GetDescriptors()[i].GetEntries()[0]
		if first.GetKey() == "tried" || first.GetValue() == "none" {
			return false
		}
		if s.GetCurrentLimit() != nil && s.GetLimitRemaining() == 0 {
			empty++
		}
	}
	return empty <= 1
}

// near reports whether two times are the same to a service that counts whole seconds.
func near(a, b float64) bool { return math.Abs(a-b) <= 2 }

// difference returns how two answers to one request differ beyond times that are near; empty: not
// at all. A limit of nothing has no time that means anything.
func difference(q *rls.RateLimitRequest, theirs, ours *rls.RateLimitResponse) string {
	alike, statuses, headers := proto.CloneOf(ours), theirs.GetStatuses(), theirs.GetResponseHeadersToAdd()
	for i, s := range alike.GetStatuses()[:min(len(alike.GetStatuses()), len(statuses))] {
		is, want := s.GetDurationUntilReset().AsDuration(), statuses[i].GetDurationUntilReset().AsDuration()
		if s.GetCurrentLimit().GetRequestsPerUnit() == 0 || near(is.Seconds(), want.Seconds()) {
			s.DurationUntilReset = statuses[i].DurationUntilReset
		}
	}
	for i, h := range alike.GetResponseHeadersToAdd()[:min(len(alike.GetResponseHeadersToAdd()), len(headers))] {
		is, err := strconv.ParseFloat(h.GetValue(), 64)
		want, failed := strconv.ParseFloat(headers[i].GetValue(), 64)
		if h.GetKey() == envoylimit.HeaderReset && err == nil && failed == nil && near(is, want) {
			h.Value = headers[i].GetValue()
		}
	}
	if !tellOfOne(q, theirs) {
		alike.ResponseHeadersToAdd = headers
	}
	if proto.Equal(alike, theirs) {
		return ""
	}
	return fmt.Sprintf("%v\n theirs %v\n ours   %v", q, theirs, ours)
}

// startTheirs starts the other service with a configuration, and connects to it.
func startTheirs(t *testing.T, program, redis, config string) rls.RateLimitServiceClient {
	t.Helper()
	port, err := server.FreePort()
	limittest.Must(t, err)
	j, folder := Job{Redis: redis, Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, t.TempDir()
	cmd, err := EnvoyProxy("theirs", program, 0).command(j, folder)
	limittest.Must(t, err)
	limittest.Must(t, os.WriteFile(filepath.Join(folder, "rules", "config", "bench.yaml"), []byte(config), 0o600))
	cmd.Env = append(cmd.Env, "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	done, err := server.Child(cmd)
	limittest.Must(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	conn, err := grpc.NewClient(j.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	limittest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// startOurs has a service that counts and charges as the other one does.
func startOurs(t *testing.T, redis, content string) *envoylimit.Service {
	t.Helper()
	client, err := shardlimit.New(rival.Config(redis))
	limittest.Must(t, err)
	t.Cleanup(client.Close)
	s, err := envoylimit.New(client, envoylimit.Options{
		Algorithm: shardlimit.FixedWindow, Charge: envoylimit.Each, Headers: true})
	limittest.Must(t, err)
	config, err := rules.Parse([]rules.File{{Name: "bench.yaml", Content: []byte(content)}})
	if err == nil {
		err = s.Apply(t.Context(), config)
	}
	limittest.Must(t, err)
	return s
}

// TestAnswersOfBothServices: with fixed windows and a charge for each descriptor, our service
// answers as envoyproxy/ratelimit does, down to the header fields. As in the scenario "envoy",
// nothing is compared where that module cannot be had.
func TestAnswersOfBothServices(t *testing.T) {
	program, err := BuildEnvoy(t.Context())
	if errors.Is(err, ErrMissing) {
		t.Logf("nothing is compared: %v", err)
		return
	}
	limittest.Must(t, err)
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	for day := ""; day != today(); { // again if the windows ended meanwhile: a request may have met both
		day = today()
		if differences := compareServices(t, program); day == today() {
			for _, text := range differences {
				t.Error(text)
			}
		}
	}
}

// compareServices returns the answers that differ, of services that have just been started.
func compareServices(t *testing.T, program string) (differences []string) {
	t.Helper()
	redis := servertest.Start(t)
	theirs, ours := startTheirs(t, program, redis.Addr(), compared), startOurs(t, redis.Addr(), compared)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		q := drawRequest(r)
		their, err := theirs.ShouldRateLimit(ctx, q, grpc.WaitForReady(true))
		limittest.Must(t, err)
		our, err := ours.ShouldRateLimit(ctx, q)
		limittest.Must(t, err)
		if text := difference(q, their, our); text != "" {
			differences = append(differences, text)
		}
	}
	return differences
}
