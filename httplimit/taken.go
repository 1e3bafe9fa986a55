package httplimit

import (
	"context"
	"net/http"

	"github.com/shardlimit/shardlimit/internal/adapter"
)

// takenKey is the key under which the context of a request holds what it took of a Transport.
type takenKey struct{}

// SettleSent makes what the request of an answer took of the Permits of a Transport what the answer
// turned out to cost: 0 for one from a cache, what the server counts for one that tells. It works
// once and takes at most Config.CallTimeout. It does nothing with a request that took nothing.
// Errors are those of Limiter.Settle. ctx may be that of the request.
func SettleSent(ctx context.Context, answer *http.Response, used int64) error {
	if answer == nil || answer.Request == nil {
		return nil
	}
	took, _ := answer.Request.Context().Value(takenKey{}).(*adapter.Taken)
	return took.Settle(ctx, used)
}
