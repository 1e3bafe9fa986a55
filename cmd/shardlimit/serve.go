package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/urfave/cli/v3"
)

const serveHelp = `For programs that are not written in Go:

  POST /v1/allow   {"limiter": "mails", "key": "", "n": 1} as
                   "Content-Type: application/json": 200 granted, 429 denied
  GET  /healthz    200 until it shuts down
  GET  /readyz     200 if a node answers
  GET  /metrics    for Prometheus
  GET  /v1/denied  with --denied: the keys that were refused most

docs/reference/http-api.md has all of it. Limits that are stored already are
joined as they are. A file of settings is a mapping in YAML or JSON, from
names of flags to values; the command line comes first:

  redis: [10.0.0.1:6379, 10.0.0.2:6379]
  token-file: /etc/shardlimit/tokens
  limits:
    - {name: mails, rate: 500/s, shards: 8}
    - {name: users, rate: 30/m, per_key: true, revision: 2}

With --grpc it is Envoy's rate limit service, too, with the YAML of
envoyproxy/ratelimit in --config, which is read again when it changes.

It listens on this machine only unless told otherwise, and believes every
participant and weight: let them come from what you have authenticated.

Example:

  shardlimit serve --limit mails=500/s --per-key users=30/m \
    --redis 10.0.0.1:6379
  shardlimit serve --settings /etc/shardlimit/serve.yaml
  shardlimit serve --grpc 127.0.0.1:8081 --config /etc/ratelimit \
    --redis 10.0.0.1:6379`

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
			&cli.StringFlag{Name: "settings", Usage: "read what else is not said here from this `FILE`"},
			&cli.StringFlag{Name: "on-outage", Value: "closed",
				Usage: "when no node answers: closed, open or local (`POLICY`)"},
			&cli.DurationFlag{Name: "call-timeout", Value: 100 * time.Millisecond, Validator: atLeast(time.Millisecond),
				Usage: "how long one decision may take, `TIME`; then --on-outage says what it is"},
			&cli.DurationFlag{Name: "grace", Value: 10 * time.Second, Validator: atLeast(0),
				Usage: "how long calls may take to end after an interrupt, `TIME`"},
			&cli.BoolFlag{Name: "denied", Usage: "tell which keys are refused most: GET /v1/denied, and a line a " +
				"minute in the log; keys may be secrets"},
		}, guardFlags(), envoyFlags(), processFlags()),
		Action: action(readServeJob, con),
	}
}

// policies are the outage policies on a command line.
var policies = map[string]shardlimit.OutagePolicy{"closed": shardlimit.FailClosed, "open": shardlimit.FailOpen,
	"local": shardlimit.FailLocal}

// serveJob is a command line of serve.
type serveJob struct {
	listen       string
	guard        guard
	declarations []serve.Declaration
	grace        time.Duration
	process      process
	envoy        *envoyJob // nil without --grpc
	denied       bool
}

func readServeJob(cmd *cli.Command) (*serveJob, error) {
	inFile, err := applySettings(cmd)
	if err != nil {
		return nil, err
	}
	j := &serveJob{listen: cmd.String("listen"), grace: cmd.Duration("grace"), denied: cmd.Bool("denied")}
	if j.process, err = readProcess(cmd); err != nil {
		return nil, err
	}
	if j.guard, err = readGuard(cmd); err != nil {
		return nil, err
	}
	if j.envoy, err = readEnvoyJob(cmd); err != nil {
		return nil, err
	}
	for _, flag := range []string{"limit", "per-key"} {
		for _, s := range cmd.StringSlice(flag) {
			d, err := serve.Parse(s, flag == "per-key")
			if err != nil {
				return nil, usagef("--%s: %w", flag, err)
			}
			j.declarations = append(j.declarations, d)
		}
	}
	j.declarations = append(j.declarations, inFile...)
	if len(j.declarations) == 0 && j.envoy == nil {
		return nil, usagef("there is nothing to serve; give --limit mails=500/s, --per-key users=30/m, " +
			"--settings FILE, or --grpc with --config")
	}
	j.process.config.CallTimeout = cmd.Duration("call-timeout")
	j.process.config.OnOutage, err = chosen(cmd, "on-outage", policies)
	return j, err
}

// whereFlags say where Redis is, one of them.
var whereFlags = []string{"redis", "cluster", "sentinel", "embedded"}

// applySettings sets the flags that only the file of --settings sets, and returns its limits. What
// the command line or the environment says comes first. Where Redis is, is said as a whole.
func applySettings(cmd *cli.Command) ([]serve.Declaration, error) {
	file := cmd.String("settings")
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--settings: %w", err)
	}
	settings, err := serve.ParseSettings(content)
	if err != nil {
		return nil, usagef("--settings: %s: %w", file, err)
	}
	if slices.ContainsFunc(whereFlags, cmd.IsSet) {
		for _, name := range whereFlags {
			delete(settings.Flags, name)
		}
	}
	for _, f := range cmd.Flags {
		name := f.Names()[0]
		values, found := settings.Flags[name]
		if !found || name == "settings" || name == "help" {
			continue
		}
		delete(settings.Flags, name)
		if cmd.IsSet(name) {
			continue
		}
		if _, several := f.(*cli.StringSliceFlag); !several {
			values = []string{strings.Join(values, ",")}
		}
		for _, value := range values {
			if err := cmd.Set(name, value); err != nil {
				return nil, usagef("--settings: %s: %s: %w", file, name, err)
			}
		}
	}
	for name := range settings.Flags {
		return nil, usagef("--settings: %s: there is no setting %q; see %s --help", file, name, cmd.FullName())
	}
	return settings.Limits, nil
}

// bind listens. An empty port would be any, and an empty address all of the machine's.
func bind(flag, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return nil, usagef("--%s is %q; it must be HOST:PORT, such as 127.0.0.1:8080", flag, address)
	}
	return net.Listen("tcp", address)
}

// run serves until an interrupt, then ends in good order. Addresses are bound before any limit is
// declared: what cannot be served stores nothing.
func (j *serveJob) run(ctx context.Context, con console) error {
	listener, err := bind("listen", j.listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	if j.envoy != nil {
		if j.envoy.listener, err = bind("grpc", j.envoy.listen); err != nil {
			return err
		}
		defer func() { _ = j.envoy.listener.Close() }()
	}
	meters, metrics, err := newMeters()
	if err != nil {
		return err
	}
	defer func() { _ = meters.Shutdown(context.Background()) }()
	log := slog.New(slog.NewTextHandler(con.err, nil))
	j.process.config.MeterProvider = meters
	if !j.process.embedded { // those are never away
		j.process.config.Logger = log
	}
	client, closeAll, err := j.process.start()
	if err != nil {
		return err
	}
	defer closeAll()
	interrupts := listen(ctx)
	defer interrupts.close()
	limits, err := serve.Declare(interrupts.first, client, j.declarations)
	if err != nil {
		return explain(err, "")
	}
	options := serve.Options{Tokens: j.guard.tokens, Ready: j.readiness(client), Log: log}
	if j.denied {
		refused := &httplimit.RefusedKeys{}
		client.OnRefusal(refused.Hear)
		go refused.Log(interrupts.first, log)
		options.Denied = refused
	}
	var fronts []front
	if j.envoy != nil {
		f, err := j.envoy.start(interrupts, client, meters, j.guard, con)
		if err != nil {
			return err
		}
		fronts = append(fronts, f)
	}
	f := j.front(listener, serve.New(limits, metrics, options), con)
	return serveAll(interrupts, j.grace, append(fronts, f)...)
}

// readiness asks the nodes. Where the policy has answers without them, only a mistake counts.
func (j *serveJob) readiness(client *shardlimit.Client) func(context.Context) []shardlimit.NodeState {
	return func(ctx context.Context) []shardlimit.NodeState {
		nodes := client.Ping(ctx)
		for i, n := range nodes {
			if j.process.config.OnOutage != shardlimit.FailClosed && !errors.As(n.Err, new(*shardlimit.ConfigError)) {
				nodes[i].Err = nil
			}
		}
		return nodes
	}
}

// maxSeries is enough for what 10,000 rules of Envoy make of any metric, some ten series each.
const maxSeries = 100_000

// newMeters returns what takes measurements, and what shows them to Prometheus, with those of the
// process and of Go. Of a metric what is beyond maxSeries is one series with the label
// otel_metric_overflow.
func newMeters() (*sdkmetric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	err = errors.Join(err, registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, nil, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(maxSeries),
		sdkmetric.WithResource(
			resource.NewSchemaless(attribute.String("service.name", "shardlimit"))))
	return meters, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
