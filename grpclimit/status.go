package grpclimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// refusal is an error that is a status, with what the trailer says.
type refusal struct {
	status *status.Status
	cause  error         // nil of a denial
	retry  time.Duration // 0: the trailer says nothing; negative: that no retry helps
	told   atomic.Bool   // that the trailer says it
}

// Error is the text of the status. On a server it has nothing of the cause.
func (r *refusal) Error() string { return r.status.Err().Error() }

// GRPCStatus is how gRPC finds the status.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// denied is the answer to a call that the limit refuses.
func (i *Interceptor) denied(limiter Limiter, d *shardlimit.Decision) error {
	name, permits := i.o.Policy, d.Limit
	if p, ok := limiter.(*httplimit.Policies); ok {
		if policies, said := p.Refused(*d); len(said) > 0 {
			name, permits = policies[0].Name, said[0].Limit
		}
	}
	name = strings.ToValidUTF8(name, "\uFFFD") // else the details could not be sent
	retry := max(d.RetryAfter, 1)
	st := status.New(codes.ResourceExhausted, "too many calls")
	if detailed, err := st.WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: name, Description: "too many calls", QuotaId: name, QuotaValue: permits}}},
		&errdetails.ErrorInfo{Reason: strings.ToUpper(d.Reason.String()), Domain: "shardlimit"},
	); err == nil { // it is UTF-8, so there is none
		st = detailed
	}
	return &refusal{status: st, retry: retry}
}

// failed is the answer to a call about which nothing could be decided.
func (i *Interceptor) failed(ctx context.Context, call Call, err error) error {
	if i.o.OnFailed != nil {
		i.o.OnFailed(ctx, call, err)
	}
	r, code := &refusal{cause: err}, codeOf(ctx, err)
	why := "no decision about this call was possible"
	switch {
	case ctx.Err() != nil:
		why = ctx.Err().Error()
	case errors.Is(err, shardlimit.ErrExceedsLimit):
		why, r.retry = "this call costs more than its whole limit", -1
	case code == codes.InvalidArgument:
		why = "this call cannot be rated"
	case code == codes.Internal:
		why = "this server has no limit that can be for this call"
	}
	r.status = status.New(code, why)
	return r
}

// codeOf is the code of a call about which nothing could be decided, or that was not made.
func codeOf(ctx context.Context, err error) codes.Code {
	switch {
	case errors.Is(err, shardlimit.ErrWaitTooLong):
		return codes.DeadlineExceeded
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Code()
	case errors.Is(err, shardlimit.ErrExceedsLimit), errors.Is(err, shardlimit.ErrInvalidName),
		errors.Is(err, shardlimit.ErrInvalidPermits):
		return codes.InvalidArgument
	case errors.Is(err, shardlimit.ErrInvalidLimit), errors.Is(err, shardlimit.ErrInvalidConfig):
		return codes.Internal
	}
	return codes.Unavailable
}

// pushback is the trailer of gRFC A6: milliseconds, or -1 for no retry.
const pushback = "grpc-retry-pushback-ms"

// pushBack sets the trailer of a call that ends with err, once, however many limits it passed.
// Without a server around it does nothing.
func pushBack(ctx context.Context, err error) {
	var r *refusal
	if !errors.As(err, &r) || r.retry == 0 || r.told.Swap(true) {
		return
	}
	ms := int64(-1)
	if r.retry > 0 { // some clients keep it in 32 bits
		ms = min((int64(r.retry)-1)/int64(time.Millisecond)+1, math.MaxInt32)
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.FormatInt(ms, 10)))
}
