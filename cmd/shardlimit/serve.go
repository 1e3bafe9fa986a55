package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/urfave/cli/v3"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

const serveHelp = `For programs that are not written in Go:

  POST /v1/allow  {"limiter": "mails", "key": "", "n": 1}
                  200 granted, 429 denied: {"allowed", "granted", "limit", "remaining", "retry_after_us", ...};
                  "participant": "ann", "weight": 2 say on whose behalf, so that those who contend
                  share fairly; left out, it is this server, and all such callers are one
                  400 and 404 for what cannot be decided, 503 if no node answers
  GET  /healthz   200, or 503 while it shuts down
  GET  /metrics   for Prometheus

Limits that are stored already are joined as they are. A file of limits is a JSON array:

  [{"name": "mails", "rate": "500/s", "shards": 8},
   {"name": "users", "rate": "30/m", "per_key": true, "revision": 2}]

With --grpc it is Envoy's rate limit service, too (envoy.service.ratelimit.v3, grpc.health.v1), with
the YAML of envoyproxy/ratelimit in --config, a file or a folder. That is read again when it changes
and on SIGHUP; a bad one is reported, and the former one stays in force.

It listens on this machine only unless told otherwise: there is no access control, and
it believes every participant and weight. Let them come from what you have authenticated.

Example:

  shardlimit serve --limit mails=500/s --per-key users=30/m --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit serve --grpc 127.0.0.1:8081 --config /etc/ratelimit --redis 10.0.0.1:6379,10.0.0.2:6379`

func serveCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "serve",
		Usage:       "answer over HTTP whether a call may pass",
		Description: serveHelp,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8080",
				Usage: "`HOST:PORT` to listen on; port 0 has one chosen"},
			&cli.StringSliceFlag{Name: "limit", Usage: "serve a limit, `NAME=RATE`; may be repeated"},
			&cli.StringSliceFlag{Name: "per-key", Usage: "serve a limit for each key, `NAME=RATE`; may be repeated"},
			&cli.StringFlag{Name: "limits", Usage: "serve the limits in this `FILE`"},
			&cli.StringFlag{Name: "on-outage", Value: "closed",
				Usage: "when no node answers: closed, open or local (`POLICY`)"},
			&cli.DurationFlag{Name: "call-timeout", Value: 100 * time.Millisecond,
				Usage: "how long one decision may take, `TIME`; then --on-outage says what it is"},
			&cli.DurationFlag{Name: "grace", Value: 10 * time.Second,
				Usage: "how long calls may take to end after an interrupt, `TIME`"},
		}, envoyFlags(), processFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			job, err := readServeJob(cmd)
			if err != nil {
				return err
			}
			return job.run(ctx, con)
		},
	}
}

// serveJob is a command line of serve.
type serveJob struct {
	listen       string
	declarations []serve.Declaration
	grace        time.Duration
	process      process
	envoy        *envoyJob // nil without --grpc
}

func readServeJob(cmd *cli.Command) (*serveJob, error) {
	j := &serveJob{listen: cmd.String("listen"), grace: cmd.Duration("grace")}
	var err error
	if j.process, err = readProcess(cmd); err != nil {
		return nil, err
	}
	if j.envoy, err = readEnvoyJob(cmd); err != nil {
		return nil, err
	}
	if j.declarations, err = readDeclarations(cmd); err != nil {
		return nil, err
	}
	if len(j.declarations) == 0 && j.envoy == nil {
		return nil,
			usagef("there is nothing to serve; give --limit mails=500/s, --per-key users=30/m, --limits FILE, " +
				"or --grpc with --config")
	}
	j.process.config.CallTimeout = cmd.Duration("call-timeout")
	policies := map[string]shardlimit.OutagePolicy{"closed": shardlimit.FailClosed, "open": shardlimit.FailOpen,
		"local": shardlimit.FailLocal}
	var known bool
	if j.process.config.OnOutage, known = policies[cmd.String("on-outage")]; !known {
		return nil, usagef("--on-outage is %q; it must be closed, open or local", cmd.String("on-outage"))
	}
	return j, nil
}

func readDeclarations(cmd *cli.Command) (all []serve.Declaration, err error) {
	if file := cmd.String("limits"); file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, usagef("--limits: %w", err)
		}
		if all, err = serve.ParseFile(content); err != nil {
			return nil, usagef("--limits: %s: %w", file, err)
		}
	}
	for _, flag := range []string{"limit", "per-key"} {
		for _, s := range cmd.StringSlice(flag) {
			d, err := serve.Parse(s, flag == "per-key")
			if err != nil {
				return nil, usagef("--%s: %w", flag, err)
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// run serves until an interrupt, then ends in good order.
func (j *serveJob) run(ctx context.Context, con console) error {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = meters.Shutdown(context.Background()) }()
	j.process.config.MeterProvider = meters
	client, closeAll, err := j.process.start()
	if err != nil {
		return err
	}
	defer closeAll()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if j.envoy != nil { // SIGHUP has the configuration read again
		ends = ends[:2]
	}
	interrupts := listenFor(ctx, ends...)
	defer interrupts.close()
	limits, err := serve.Declare(interrupts.first, client, j.declarations)
	if err != nil {
		return explain(err, "")
	}
	server := serve.New(limits, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if j.envoy == nil {
		return j.listenAndServe(interrupts, server, con)
	}
	running, err := j.envoy.start(interrupts, client, meters, con)
	if err != nil {
		return err
	}
	return errors.Join(j.listenAndServe(interrupts, server, con), running.stop(interrupts, j.grace))
}

func (j *serveJob) listenAndServe(interrupts *interrupts, handler *serve.Server, con console) error {
	listener, err := net.Listen("tcp", j.listen)
	if err != nil {
		return err
	}
	server := serve.HTTP(handler, j.process.config.CallTimeout)
	_, _ = fmt.Fprintf(con.err, "shardlimit: serving %d limits on http://%s\n", len(j.declarations), listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-interrupts.first.Done():
	}
	handler.Leave()
	ctx, cancel := context.WithTimeout(interrupts.second, j.grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
		return fmt.Errorf("some calls had not ended: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
