package scenario

import (
	"context"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// farm is several independent servers.
type farm []*server.Server

// startFarm starts n servers, or none if one of them fails.
func (e Env) startFarm(ctx context.Context, result *report.Result, n int) (farm, error) {
	first, err := e.start(ctx, result)
	if err != nil {
		return nil, err
	}
	f := farm{first}
	for len(f) < n {
		s, err := server.Start(ctx, e.Redis)
		if err != nil {
			f.close()
			return nil, err
		}
		f = append(f, s)
	}
	return f, nil
}

func (f farm) close() {
	for _, s := range f {
		s.Close()
	}
}

// addrs are the addresses of the first n servers.
func (f farm) addrs(n int) []string {
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = f[i].Addr()
	}
	return addrs
}

// usage is what all servers together have done since they started.
func (f farm) usage(ctx context.Context) (server.Usage, error) {
	var sum server.Usage
	for _, s := range f {
		u, err := s.Usage(ctx)
		if err != nil {
			return sum, err
		}
		sum.CPU += u.CPU
		sum.Scripts += u.Scripts
		sum.ScriptMicro += u.ScriptMicro
	}
	return sum, nil
}
