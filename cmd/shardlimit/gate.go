package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
)

// gate lets a limiter serve a pace.Engine.
type gate struct{ limiter *shardlimit.Limiter }

// Take implements pace.Gate. Errors that the command line has caused are
// final; all others may pass: a node can come back.
func (g gate) Take(ctx context.Context, n int64) (pace.Grant, error) {
	d, err := g.limiter.AllowUpTo(ctx, n)
	if err != nil && d.Granted == 0 {
		for _, final := range []error{shardlimit.ErrClosed, shardlimit.ErrInvalidPermits, shardlimit.ErrInvalidLimit,
			shardlimit.ErrInvalidName} {
			if errors.Is(err, final) {
				return pace.Grant{}, fmt.Errorf("%w: %w", pace.ErrGateClosed, err)
			}
		}
		return pace.Grant{}, err
	}
	return pace.Grant{
		Permits: d.Granted, Limit: d.Limit, Per: g.limiter.Limit().Per, RetryAfter: d.RetryAfter,
		GiveBack: func(ctx context.Context) {
			// If it fails the permits stay spent: later, never over.
			_ = g.limiter.Settle(ctx, d, 0)
		},
	}, nil
}
