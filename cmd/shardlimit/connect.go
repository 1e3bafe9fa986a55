package main

import (
	"context"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/urfave/cli/v3"
)

// adminTimeout bounds one command that looks at or changes a limit.
const adminTimeout = 10 * time.Second

// forLong bounds one that watches or follows a limit. It is longer than any window.
const forLong = 100 * 24 * time.Hour

// adminCall bounds one look at a shard by such a command, which may have to connect first.
const adminCall = 2 * time.Second

// interruptible is a context until an interrupt. It ignores no signal: a command that run becomes
// would inherit that.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// withClient calls do with a client and the NAME of a command, within a time and until interrupted.
// log hears of nodes that go and come; nil: nobody does.
func withClient(ctx context.Context, cmd *cli.Command, within time.Duration, log *slog.Logger,
	do func(context.Context, *shardlimit.Client, string) error) error {
	if cmd.Args().Len() == 0 {
		return usagef("%s needs the NAME of a limit; see %s --help", cmd.Name, cmd.FullName())
	}
	name := cmd.Args().First()
	p, err := readProcess(cmd)
	if err != nil {
		return err
	}
	p.config.CallTimeout, p.config.OnOutage, p.config.Logger = adminCall, shardlimit.WaitOut, log
	client, closeAll, err := p.start()
	if err != nil {
		return err
	}
	defer closeAll()
	ctx, stop := interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return explain(do(ctx, client, name), name)
}

// withLimit calls do with the limit that NAME and --key say, likewise.
func withLimit(ctx context.Context, cmd *cli.Command, within time.Duration, log *slog.Logger,
	do func(context.Context, *shardlimit.Limiter) error) error {
	return withClient(ctx, cmd, within, log, func(ctx context.Context, client *shardlimit.Client, name string) error {
		limiter, err := open(ctx, cmd, client, name)
		if err != nil {
			return err
		}
		return do(ctx, limiter)
	})
}

// keyFlag makes NAME that of a family, whose limit holds for each of many keys.
func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key",
		Usage: "`KEY` of the family NAME; allow and run bring the family's limit: a key whose calls bring another " +
			"of the same revision has it until its next call"}
}

// open opens the limit that NAME and --key say, within adminTimeout.
func open(ctx context.Context, cmd *cli.Command, client *shardlimit.Client, name string) (*shardlimit.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if cmd.IsSet("key") {
		family, err := client.OpenFamily(ctx, name)
		if err != nil {
			return nil, err
		}
		return family.Limiter(cmd.String("key")), nil
	}
	return client.Open(ctx, name)
}

const embeddedNodes = 4

// process is how a command takes part in limits: where Redis is, and as whom it asks.
type process struct {
	config   shardlimit.Config
	embedded bool // it brings the nodes along
}

func processFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.BoolFlag{Name: "embedded", Usage: "use Redis nodes inside this process, to try it out without a server"},
		nodeTimeoutFlag(),
	}, askerFlags()...)
}

// nodeTimeoutFlag says how a command declares limits that are new.
func nodeTimeoutFlag() cli.Flag {
	return &cli.DurationFlag{Name: "node-timeout", HideDefault: true,
		Usage: "for new limits: the others, of three or more, take over what a node has that did not answer for " +
			"this `TIME`, 1s or more"}
}

// askerFlags say where Redis is, and on whose behalf permits are asked for.
func askerFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "participant",
			Usage: "`NAME` under which this process contends, which no other should have; without effect on a key " +
				"(default: host-pid-random)"},
		&cli.FloatFlag{Name: "weight", Value: 1,
			Usage: "part of a contended limit relative to the others, a `NUMBER`; without effect on a key"},
	}, targetFlags()...)
}

func readProcess(cmd *cli.Command) (process, error) {
	p := process{embedded: cmd.Bool("embedded")}
	p.config = shardlimit.Config{KeyPrefix: cmd.String("prefix"), Participant: cmd.String("participant"),
		Weight: cmd.Float("weight"), NodeTimeout: cmd.Duration("node-timeout")}
	if cmd.IsSet("weight") && p.config.Weight == 0 {
		// in the library that means 1
		return p, usagef("--weight is 0; it must be %v to %v", shardlimit.MinWeight, shardlimit.MaxWeight)
	}
	if !p.embedded {
		var err error
		p.config.Nodes, err = target(cmd)
		return p, err
	}
	for _, f := range targetFlags() {
		if name := f.Names()[0]; name != "prefix" && cmd.String(name) != "" {
			return p, usagef("--embedded needs no other server; leave --%s out, also in the environment", name)
		}
	}
	return p, nil
}

// start makes the client, and what closes it.
func (p process) start() (client *shardlimit.Client, closeAll func(), err error) {
	stop := func() {}
	if p.embedded {
		servers, err := embedded.Start(embeddedNodes)
		if err != nil {
			return nil, nil, err
		}
		p.config.Nodes, stop = servers.Nodes(), servers.Close
	}
	if client, err = newClient(p.config); err != nil {
		stop()
		return nil, nil, err
	}
	return client, func() {
		client.Close()
		stop()
	}, nil
}
