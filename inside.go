package shardlimit

import (
	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/inside"
)

// Tests in other packages look into the engine with these.
func init() {
	inside.Client = func(of any) *call.Client { return of.(*Client).in }
	inside.Limiter = func(of any) *call.Limiter { return &of.(*Limiter).in }
	inside.Family = func(of any) *call.Family { return of.(*Family).in }
}
