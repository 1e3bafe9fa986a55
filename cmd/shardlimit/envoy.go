package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"google.golang.org/grpc/keepalive"

	"github.com/urfave/cli/v3"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// envoyJob is Envoy's rate limit service on a command line of serve.
type envoyJob struct {
	listen   string
	listener net.Listener
	config   string // its path
	options  envoylimit.Options
}

func envoyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "grpc", Usage: "`HOST:PORT` for Envoy's rate limit service; needs --config"},
		&cli.StringFlag{Name: "config", Usage: "YAML of envoyproxy/ratelimit, a `FILE` or folder"},
		&cli.StringFlag{Name: "algorithm", Value: "sliding-log",
			Usage: "`HOW` to count for Envoy: sliding-log, sliding-counter, fixed-window or token-bucket"},
		&cli.StringFlag{Name: "charge", Value: "together",
			Usage: "what Envoy's requests with several descriptors cost, together or each (`HOW`)"},
		&cli.BoolFlag{Name: "response-headers", Usage: "have Envoy add RateLimit-Limit, -Remaining and -Reset"},
		&cli.BoolFlag{Name: "shadow", Usage: "refuse nothing of Envoy's, but count"},
	}
}

// readEnvoyJob is nil if the command line has none.
func readEnvoyJob(cmd *cli.Command) (*envoyJob, error) {
	j := &envoyJob{listen: cmd.String("grpc"), config: cmd.String("config")}
	if !slices.ContainsFunc(envoyFlags(), func(f cli.Flag) bool { return cmd.IsSet(f.Names()[0]) }) {
		return nil, nil
	}
	if j.listen == "" || j.config == "" {
		return nil, usagef("Envoy's service needs both of --grpc and --config: --grpc 127.0.0.1:8081 --config FILE")
	}
	var err error
	algorithms := spelling.Algorithms()
	delete(algorithms, "leaky-bucket") // Envoy cannot make a request wait
	if j.options.Algorithm, err = chosen(cmd, "algorithm", algorithms); err != nil {
		return nil, err
	}
	charges := map[string]envoylimit.Charge{"together": envoylimit.Together, "each": envoylimit.Each}
	if j.options.Charge, err = chosen(cmd, "charge", charges); err != nil {
		return nil, err
	}
	j.options.Shadow, j.options.Headers = cmd.Bool("shadow"), cmd.Bool("response-headers")
	files, err := envoylimit.Read(j.config)
	if err == nil {
		_, err = rules.Parse(files)
	}
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	return j, nil
}

// start makes the service ready to serve.
func (j *envoyJob) start(interrupts *interrupts, client *shardlimit.Client, meters metric.MeterProvider,
	who guard, con console) (front, error) {
	j.options.MeterProvider = meters
	j.options.Logger = slog.New(slog.NewTextHandler(con.err, nil))
	service, err := envoylimit.New(client, j.options)
	if err != nil {
		return front{}, err
	}
	if err := service.Load(interrupts.first, j.config); err != nil {
		if errors.Is(err, rules.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
			return front{}, usagef("--config: %w", err)
		}
		return front{}, err
	}
	server := grpc.NewServer(who.grpc()...)
	service.Register(server)
	_, _ = fmt.Fprintf(con.err, "shardlimit: serving Envoy on %s\n", j.listener.Addr())
	who.warn(con, j.listener.Addr())
	go service.Follow(interrupts.first, j.config)
	return front{name: "Envoy",
		serve: func() error { return server.Serve(j.listener) },
		stop: func(ctx context.Context) error {
			service.Leave()
			defer context.AfterFunc(ctx, server.Stop)()
			server.GracefulStop() // until it has stopped in either way
			return ctx.Err()
		}}, nil
}

// Bounds keep one client of Envoy's service from holding all that there is. Those of HTTP are in
// internal/serve. Envoy has a connection for each worker, and leaves it when told.
const (
	maxCalls   = 1024     // at once on a connection; further ones wait at the client
	maxMessage = 1 << 20  // bytes of a request: many descriptors of long values
	maxHead    = 64 << 10 // bytes of a request's head
)

func bounds() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxCalls), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHead),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 30 * time.Minute,
			MaxConnectionAgeGrace: time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second,
			PermitWithoutStream: true}),
	}
}
