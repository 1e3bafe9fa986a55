package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// envoyJob is Envoy's rate limit service on a command line of serve.
type envoyJob struct {
	listen  string
	source  envoylimit.Source
	options envoylimit.Options
}

func envoyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "grpc", Usage: "`HOST:PORT` for Envoy's rate limit service; needs --config"},
		&cli.StringFlag{Name: "config", Usage: "YAML of envoyproxy/ratelimit, a `FILE` or folder"},
		&cli.BoolFlag{Name: "merge-domains", Usage: "several files of --config may tell of one domain"},
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
	j := &envoyJob{listen: cmd.String("grpc"), source: envoylimit.Source{Path: cmd.String("config"),
		Rules: rules.Options{MergeDomains: cmd.Bool("merge-domains")}}}
	if j.listen == "" && j.source.Path == "" {
		for _, f := range envoyFlags() {
			if name := f.Names()[0]; name != "grpc" && name != "config" && cmd.IsSet(name) {
				return nil, usagef("--%s is for Envoy's service and needs --grpc", name)
			}
		}
		return nil, nil
	}
	if j.listen == "" || j.source.Path == "" {
		return nil, usagef("--grpc and --config need each other: --grpc 127.0.0.1:8081 --config FILE")
	}
	if err := checkAddress("grpc", j.listen); err != nil {
		return nil, err
	}
	algorithms := map[string]shardlimit.Algorithm{"sliding-log": shardlimit.SlidingLog,
		"sliding-counter": shardlimit.SlidingCounter, "fixed-window": shardlimit.FixedWindow,
		"token-bucket": shardlimit.TokenBucket}
	charges := map[string]envoylimit.Charge{"together": envoylimit.Together, "each": envoylimit.Each}
	var known bool
	if j.options.Algorithm, known = algorithms[cmd.String("algorithm")]; !known {
		return nil, usagef("--algorithm is %q; it must be sliding-log, sliding-counter, fixed-window or token-bucket",
			cmd.String("algorithm"))
	}
	if j.options.Charge, known = charges[cmd.String("charge")]; !known {
		return nil, usagef("--charge is %q; it must be together or each", cmd.String("charge"))
	}
	j.options.Shadow, j.options.Headers = cmd.Bool("shadow"), cmd.Bool("response-headers")
	files, err := j.source.Read()
	if err == nil {
		_, err = rules.Parse(files, j.source.Rules)
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
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	j.source.Reload = hups
	if err := service.Load(interrupts.first, j.source); err != nil {
		signal.Stop(hups)
		if errors.Is(err, rules.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
			return front{}, usagef("--config: %w", err)
		}
		return front{}, err
	}
	listener, err := net.Listen("tcp", j.listen)
	if err != nil {
		signal.Stop(hups)
		return front{}, err
	}
	server := grpc.NewServer(who.grpc(usualBounds)...)
	service.Register(server)
	_, _ = fmt.Fprintf(con.err, "shardlimit: serving Envoy on %s\n", listener.Addr())
	who.warn(con, listener.Addr())
	go service.Follow(interrupts.first, j.source)
	return front{name: "Envoy", leave: service.Leave,
		serve: func() error { return server.Serve(listener) },
		stop: func(ctx context.Context) error {
			signal.Stop(hups)
			return stopServer(ctx, server)
		}}, nil
}

// stopServer ends in good order, at the end of ctx at once.
func stopServer(ctx context.Context, server *grpc.Server) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		server.Stop()
		<-stopped
		return ctx.Err()
	}
}
