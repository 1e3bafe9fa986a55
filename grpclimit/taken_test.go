package grpclimit_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// talk sends messages on a stream, and counts the answers until it ends.
func talk(t *testing.T, api testpb.TestServiceClient, n int) (answers int, err error) {
	t.Helper()
	stream, err := api.FullDuplexCall(t.Context())
	limittest.Must(t, err)
	for range n {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			break // the status comes with Recv
		}
	}
	_ = stream.CloseSend()
	for {
		if _, err = stream.Recv(); err != nil {
			return answers, err
		}
		answers++
	}
}

// The begin of a stream takes permits, and each message if that is wanted. A handler can settle
// what the begin took.
func TestStreams(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	each := grpclimit.Options{EachMessage: true}
	double := grpclimit.Options{EachMessage: true, Cost: twoForMessages}
	for name, c := range map[string]struct {
		o       grpclimit.Options
		service *service
		permits int64
		answers int
		used    int64
		refused bool
	}{
		"a permit at its begin": {permits: 1, answers: 5, used: 1},
		"settled": {permits: 1, answers: 5,
			service: &service{do: func(ctx context.Context) error { return grpclimit.Settle(ctx, 0) }}},
		"one for each message":     {o: each, permits: 6, answers: 5, used: 6},
		"too many messages":        {o: each, permits: 4, answers: 3, used: 4, refused: true},
		"a handler that reads on":  {o: each, service: &service{reads: true}, permits: 4, answers: 3, used: 4},
		"a message that costs two": {o: double, permits: 11, answers: 5, used: 11},
	} {
		t.Run(name, func(t *testing.T) {
			l := limittest.Limiter(t, client, name, shardlimit.PerHour(c.permits))
			answers, err := talk(t, serve(t, cmp.Or(c.service, &service{}), one(l, c.o)), 5)
			if answers != c.answers || status.Code(err) == codes.ResourceExhausted != c.refused {
				t.Errorf("%d answers, %v", answers, err)
			}
			if c.refused {
				if retry, quota := details(t, err); retry < 59*time.Minute || quota.GetQuotaValue() != c.permits {
					t.Errorf("RetryInfo %s, %v", retry, quota)
				}
			}
			limittest.Uses(t, l, c.used)
		})
	}
}

// A stream that ends with the refusal of a message tells once when to try again, however many
// limits it passed.
func TestTheTrailerOfARefusedMessage(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	var limits []*grpclimit.Interceptor
	for i, permits := range []int64{5, 1, 5} {
		l := limittest.Limiter(t, client, fmt.Sprint(i), shardlimit.PerHour(permits))
		limits = append(limits, one(l, grpclimit.Options{EachMessage: true})...)
	}
	stream, err := serve(t, &service{}, limits).FullDuplexCall(t.Context())
	limittest.Must(t, err)
	limittest.Must(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	after := stream.Trailer().Get("grpc-retry-pushback-ms")
	if status.Code(err) != codes.ResourceExhausted || len(after) != 1 || len(after[0]) != len("3600000") {
		t.Errorf("%v, after %q ms", err, after)
	}
}

func twoForMessages(_ context.Context, c grpclimit.Call) int64 {
	if _, message := c.Request.(*testpb.StreamingOutputCallRequest); message {
		return 2
	}
	return 1
}
