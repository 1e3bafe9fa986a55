package envoylimit_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

const config = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2, name: users}}
  - {key: user, value: none, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: user, value: root, rate_limit: {unlimited: true}}
  - {key: all, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: path, value: x/*, share_threshold: true, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: path, value: y/*, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: long, rate_limit: {unit: hour, unit_multiplier: 3, requests_per_unit: 0}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: special, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: users}]}}
  - {key: quota, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, value: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
`

// step is a request and what it is answered with.
type step struct {
	ask  *rls.RateLimitRequest
	want string
}

func play(t *testing.T, s asker, steps []step) {
	t.Helper()
	for i, step := range steps {
		if got := verdict(t, s, step.ask); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	everywhere(t, func(t *testing.T, client *shardlimit.Client) {
		s := start(t, client, config, envoylimit.Options{})
		play(t, remote{rls.NewRateLimitServiceClient(dial(t, s))}, []step{
			{ask("d", "user=ann"), "OK ok:1"},
			{ask("d", "user=ann"), "OK ok:0"},
			{ask("d", "user=ann"), "OVER_LIMIT over:0"},
			{ask("d", "user=bob"), "OK ok:1"},
			{ask("d", "user=none"), "OVER_LIMIT over:0"},
			{hits(ask("d", "user=none"), 0), "OK ok:0"},
			{ask("d", "user=root"), "OK ok:4294967295"},
			{ask("d", "other=x"), "OK ok"},
			{ask("e", "user=ann"), "OK ok"},
			{ask("d", "user=ann", "other=x"), "OVER_LIMIT over:0 ok"},
			{ask("d", "path=x/1"), "OK ok:0"},
			{ask("d", "path=x/2"), "OVER_LIMIT over:0"},
			{ask("d", "path=y/1"), "OK ok:0"},
			{ask("d", "path=y/2"), "OK ok:0"},
			{ask("d", "path=y/2"), "OVER_LIMIT over:0"},
			{ask("d", "tried=x"), "OK ok:0"},
			{ask("d", "tried=x"), "OK ok:0"},
			{ask("d", "tried=x", "user=fay"), "OK ok:0 ok:1"},
			{ask("d", "user=ann", "special=x"), "OK ok ok:4"},
			// what is refused together costs nothing; who refused last is asked first, and then
			// nobody else
			{ask("d", "all=x"), "OK ok:2"},
			{ask("d", "all=x", "user=ann"), "OVER_LIMIT ok:3 over:0"},
			{ask("d", "all=x"), "OK ok:1"},
			// hits
			{hits(ask("d", "user=cid"), 3), "OVER_LIMIT over:2"},
			{hits(ask("d", "user=cid"), 0), "OK ok:2"},
			{hits(ask("d", "user=cid", "all=x"), 2, 1), "OK ok:0 ok:0"},
			{hits(ask("d", "user=cid"), 0), "OVER_LIMIT over:0"},
			{&rls.RateLimitRequest{Domain: "d", HitsAddend: 2, Descriptors: ask("d", "user=dan").Descriptors},
				"OK ok:0"},
			{hits(ask("d", "user=eve"), math.MaxUint64), "OVER_LIMIT over:2"},
			// quotas refuse if all do
			{ask("d", "quota=a", "quota=b"), "OK ok:0 ok:1"},
			{ask("d", "quota=a", "quota=b"), "OK over:0 ok:0"},
			{ask("d", "quota=a", "quota=b"), "OVER_LIMIT over:0 over:0"},
		})
	})
}

// Each charges what is there, whatever the others say. A fixed window is reset when it ends.
// TestAnswersOfBothServices in bench compares this with envoyproxy/ratelimit.
func TestEachIsCharged(t *testing.T) {
	s := start(t, connect(t), config, envoylimit.Options{Charge: envoylimit.Each,
		Algorithm: shardlimit.FixedWindow})
	play(t, s, []step{
		{hits(ask("d", "user=ann"), 5), "OVER_LIMIT over:0"},
		{ask("d", "all=x", "user=ann"), "OVER_LIMIT ok:2 over:0"},
	})
	before := time.Now()
	a, err := s.ShouldRateLimit(t.Context(), ask("d", "all=x"))
	if err != nil || short(a) != "OK ok:1" {
		t.Fatalf("%v, %v", a, err)
	}
	end := before.Truncate(24 * time.Hour).Add(24 * time.Hour)
	reset := a.GetStatuses()[0].GetDurationUntilReset().AsDuration()
	if off := before.Add(reset).Sub(end); off < -time.Minute || off > time.Minute {
		t.Errorf("it is reset in %s, and the day ends in %s", reset, end.Sub(before))
	}
}

// Every answer goes by the mode of the limit, whether hits are asked for, looked at, more than the
// limit has, or not charged because another limit refuses.
func TestAnswersGoByTheModeOfTheLimit(t *testing.T) {
	client := connect(t)
	for mode, want := range map[shardlimit.Mode]string{shardlimit.Off: "ok:1", shardlimit.Shadow: "ok:0",
		shardlimit.Closed: "over:0"} {
		for _, charge := range []envoylimit.Charge{envoylimit.Together, envoylimit.Each} {
			limit := shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: mode}
			value := fmt.Sprint(mode, charge)
			limittest.Limiter(t, client, "envoy/d/all="+value, limit)
			s := start(t, client, config+"  - {key: all, value: "+value+
				", rate_limit: {unit: hour, requests_per_unit: 1}}\n", envoylimit.Options{Charge: charge})
			code := "OK "
			if mode == shardlimit.Closed {
				code = "OVER_LIMIT "
			}
			q := ask("d", "all="+value)
			play(t, s, []step{{q, code + want}, {q, code + want}, {hits(ask("d", "all="+value), 0), code + want},
				{hits(ask("d", "all="+value), 5), code + want},
				{hits(ask("d", "all="+value), math.MaxUint64), code + want},
				{ask("d", "all="+value, "user=none"), "OVER_LIMIT " + want + " over:0"}})
		}
	}
}

// While Redis is away, a limit in shadow harms no request, and one that is surely over refuses it.
func TestWithoutRedis(t *testing.T) {
	const text = `domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: tried
    rate_limit: {unit: hour, requests_per_unit: 5}
    shadow_mode: true
  - key: none
    rate_limit: {unit: hour, requests_per_unit: 0}`
	o := envoylimit.Options{Headers: true}
	s := start(t, limittest.Away().Client(t), text, o)
	_, err := s.ShouldRateLimit(t.Context(), ask("d", "user=ann", "tried=x"))
	limittest.ErrorIs(t, err, shardlimit.ErrUnavailable)
	play(t, s, []step{
		{ask("d", "tried=x"), "OK ok:0"},
		{ask("d", "user=ann", "none=x"), "OVER_LIMIT ok:0 over:0"},
	})
	for policy, want := range map[shardlimit.OutagePolicy][2]string{shardlimit.FailOpen: {"OK ok:0", "OK ok:0"},
		shardlimit.FailLocal: {"OK ok:4", "OVER_LIMIT over:0"}} {
		s := start(t, limittest.Away().Client(t, limittest.OnOutage(policy)), text, o)
		a, err := s.ShouldRateLimit(t.Context(), hits(ask("d", "user=ann"), 0))
		if err != nil || len(a.GetResponseHeadersToAdd()) > 0 {
			t.Errorf("%v, %v", a, err)
		}
		play(t, s, []step{ // who only looks, and who is not asked, because another one refuses
			{hits(ask("d", "user=ann"), 0), want[0]},
			{ask("d", "user=ann", "none=x"), "OVER_LIMIT" + want[0][2:] + " over:0"},
			{hits(ask("d", "user=ann"), 5), "OK ok:0"},
			{hits(ask("d", "user=ann"), 0), want[1]},
		})
	}
	o.Shadow = true
	a, err := start(t, limittest.Away().Client(t), text, o).ShouldRateLimit(t.Context(), ask("d", "user=ann", "none=x"))
	if err != nil || a.GetOverallCode() != rls.RateLimitResponse_OK || len(a.GetResponseHeadersToAdd()) > 0 {
		t.Errorf("%v, %v", a, err)
	}
}

// A request that fails costs the limits on other nodes nothing.
func TestAFailedRequestCostsNothing(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		s := start(t, f.Client(t), `{domain: d, descriptors: [
			{key: user, rate_limit: {unit: hour, requests_per_unit: 5}},
			{key: part, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}]}`, envoylimit.Options{})
		request := func(i int) *rls.RateLimitRequest {
			return ask("d", fmt.Sprint("user=", i), fmt.Sprint("user=b", i), fmt.Sprint("part=", i))
		}
		for i := range 20 {
			play(t, s, []step{{request(i), "OK ok:4 ok:4 ok:4"}})
		}
		f.Bubble[1].Down.Store(true)
		looked := 0
		for i := range 20 {
			if _, err := s.ShouldRateLimit(t.Context(), request(i)); err == nil {
				continue
			}
			users := hits(ask("d", fmt.Sprint("user=", i), fmt.Sprint("user=b", i)), 0, 0)
			if a, err := s.ShouldRateLimit(t.Context(), users); err == nil {
				if looked++; short(a) != "OK ok:4 ok:4" {
					t.Errorf("users %d: %s", i, short(a))
				}
			}
		}
		if looked == 0 {
			t.Error("no request failed whose users' node answers")
		}
	})
}

// A status names the limit, what is left of it and until when. A window may be several units.
func TestWhatAStatusSays(t *testing.T) {
	s := start(t, connect(t), config, envoylimit.Options{Headers: true})
	for i, want := range []string{"2 1 3600", "2 0 3600", "2 0 3600"} {
		a, err := s.ShouldRateLimit(t.Context(), ask("d", "all=x", "user=ann", "user=root"))
		limittest.Must(t, err)
		st := a.GetStatuses()[1]
		l := st.GetCurrentLimit()
		if l.GetName() != "users" || l.GetRequestsPerUnit() != 2 ||
			l.GetUnit() != rls.RateLimitResponse_RateLimit_HOUR {
			t.Errorf("%v", l)
		}
		if d := st.GetDurationUntilReset().AsDuration(); d <= 59*time.Minute || d > time.Hour {
			t.Errorf("it is reset in %s", d)
		}
		var values []string
		for _, h := range a.GetResponseHeadersToAdd() {
			values = append(values, h.GetValue())
		}
		if got := strings.Join(values, " "); got != want && got != strings.Replace(want, "3600", "3599", 1) {
			t.Errorf("step %d: headers %s, want %s", i, got, want)
		}
	}
	a, err := s.ShouldRateLimit(t.Context(), ask("d", "long=x"))
	if reset := a.GetStatuses()[0].GetDurationUntilReset().AsDuration(); err != nil || reset != 3*time.Hour {
		t.Errorf("it is free again in %v, %v", reset, err)
	}
}

func TestErrors(t *testing.T) {
	client := connect(t)
	empty, s := start(t, client, "", envoylimit.Options{}), start(t, client, config, envoylimit.Options{})
	year := override(typev3.RateLimitUnit_YEAR, 3)
	for name, c := range map[string]struct {
		s    *envoylimit.Service
		ask  *rls.RateLimitRequest
		want error
		code codes.Code
		says string
	}{
		"no config":      {empty, ask("d", "user=ann"), envoylimit.ErrNoConfig, codes.Unknown, ""},
		"no domain":      {s, ask("", "user=ann"), envoylimit.ErrNoDomain, codes.Unknown, ""},
		"no descriptors": {s, ask("d"), envoylimit.ErrNoDescriptors, codes.Unknown, "list must not be empty"},
		"too many descriptors": {s, ask("d", slices.Repeat([]string{"other=x"}, envoylimit.MaxDescriptors+1)...),
			envoylimit.ErrTooManyDescriptors, codes.InvalidArgument,
			"desc = envoylimit: the request has too many descriptors: 257 descriptors"},
		"as many as may be": {s, ask("d", slices.Repeat([]string{"other=x"}, envoylimit.MaxDescriptors)...), nil,
			codes.OK, ""},
		"a limit per year": {s, year, envoylimit.ErrOverride, codes.InvalidArgument, "its unit is YEAR; use second"},
	} {
		if _, err := c.s.ShouldRateLimit(t.Context(), c.ask); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		_, err := rls.NewRateLimitServiceClient(dial(t, c.s)).ShouldRateLimit(t.Context(), c.ask)
		if status.Code(err) != c.code || c.says != "" && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, over gRPC: %v", name, err)
		}
	}
	client.Close()
	if _, err := s.ShouldRateLimit(t.Context(), ask("d", "user=ann")); !errors.Is(err, shardlimit.ErrClosed) {
		t.Error(err)
	}
}

func override(unit typev3.RateLimitUnit, n uint32) *rls.RateLimitRequest {
	q := ask("d", "user=ann")
	q.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{Unit: unit, RequestsPerUnit: n}
	return q
}

func TestInvalidOptions(t *testing.T) {
	client := connect(t)
	for _, o := range []envoylimit.Options{{Algorithm: shardlimit.LeakyBucket}, {Charge: 2}} {
		limittest.ErrorIs(t, limittest.Err(envoylimit.New(client, o)), envoylimit.ErrInvalidOptions, o)
	}
	limittest.ErrorIs(t, limittest.Err(envoylimit.New(nil, envoylimit.Options{})), envoylimit.ErrInvalidOptions)
}

func TestHealth(t *testing.T) {
	s := start(t, connect(t), "", envoylimit.Options{})
	api := grpc_health_v1.NewHealthClient(dial(t, s))
	check := func(want string) {
		t.Helper()
		for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
			a, err := api.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			if err != nil || a.GetStatus().String() != want {
				t.Errorf("%q: %v, %v; want %s", name, a, err, want)
			}
		}
	}
	check("NOT_SERVING")
	limittest.Must(t, s.Apply(t.Context(), parse(t, config)))
	check("SERVING")
	w, err := api.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = w.Recv()
	}
	if status.Code(err) != codes.Unimplemented { // a stream would hold up the end of the server
		t.Error(err)
	}
	s.Leave()
	check("NOT_SERVING")
}

// Envoy may send fields of a later version, such as one that has hits given back: what they ask for
// is not done, so nothing is.
func TestUnknownFieldsAreRefused(t *testing.T) {
	s := start(t, connect(t), config, envoylimit.Options{})
	api := rls.NewRateLimitServiceClient(dial(t, s))
	type descriptor = *ratelimit.RateLimitDescriptor
	for name, of := range map[string]func(descriptor) protoreflect.Message{
		"descriptor": func(d descriptor) protoreflect.Message { return d.ProtoReflect() },
		"entry":      func(d descriptor) protoreflect.Message { return d.GetEntries()[0].ProtoReflect() },
		"limit":      func(d descriptor) protoreflect.Message { return d.GetLimit().ProtoReflect() },
	} {
		q := override(typev3.RateLimitUnit_HOUR, 3)
		q.Descriptors[0].Entries[0].Value = name
		// is_negative_hits, by its number: once it is known here it needs an answer of its own
		of(q.Descriptors[0]).SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 1))
		if _, err := api.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
		of(q.Descriptors[0]).SetUnknown(nil)
		if got := verdict(t, remote{api}, q); got != "OK ok:2" {
			t.Errorf("%s, which was refused, was charged: %s", name, got)
		}
	}
}

func TestWhatIsCharged(t *testing.T) {
	hour := func(n uint32) *rls.RateLimitRequest { return override(typev3.RateLimitUnit_HOUR, n) }
	long := strings.Repeat("ä", 5000)
	for i, c := range []struct {
		o     envoylimit.Options
		steps []step
	}{
		// Whatever refuses a request, it costs nothing: what a quota or a limit in shadow granted
		// comes back.
		{steps: []step{
			{ask("d", "user=ann"), "OK ok:1"},
			{hits(ask("d", "user=ann", "tried=x", "quota=b"), 2, 1, 1), "OVER_LIMIT over:1 ok:1 ok:2"},
			{hits(ask("d", "user=ann", "all=x"), 1, 4), "OVER_LIMIT ok:1 over:3"},
			{hits(ask("d", "user=ann", "quota=a"), 1, 2), "OVER_LIMIT ok:1 over:1"},
			{ask("d", "user=ann", "user=ann"), "OVER_LIMIT over:1 over:1"},
			{ask("d", "user=bob", "user=bob"), "OK ok:0 ok:0"},
			{hits(ask("d", "all=x", "all=x"), 2, 2), "OVER_LIMIT over:3 over:3"},
			{ask("d", "user=ann", "tried=x", "all=x", "quota=b"), "OK ok:0 ok:0 ok:2 ok:1"},
		}},
		// The global shadow mode lets everything pass, and charges it.
		{envoylimit.Options{Shadow: true}, []step{
			{ask("d", "user=none", "all=x"), "OK over:0 ok:2"},
			{ask("d", "user=none", "all=x"), "OK over:0 ok:1"},
		}},
		// A limit that a descriptor brings along goes before its rule, and counts apart from it.
		// Another one that is brought later counts what was used.
		{steps: []step{
			{hour(1), "OK ok:0"}, {hour(1), "OVER_LIMIT over:0"}, {ask("d", "user=ann"), "OK ok:1"},
			{hour(4), "OK ok:2"}, {hour(1), "OVER_LIMIT over:0"},
			{override(typev3.RateLimitUnit_DAY, 4), "OK ok:3"},
			{override(typev3.RateLimitUnit_DAY, 0), "OVER_LIMIT over:0"},
		}},
		// Long values are told apart, too.
		{steps: []step{
			{ask("d", "user="+long), "OK ok:1"}, {ask("d", "user="+long), "OK ok:0"},
			{ask("d", "user="+long+"b"), "OK ok:1"}, {ask("d", "user="+long), "OVER_LIMIT over:0"},
		}},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) { play(t, start(t, connect(t), config, c.o), c.steps) })
	}
}
