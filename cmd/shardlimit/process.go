package main

import (
	"context"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/urfave/cli/v3"
)

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

// withAsker opens the limit that NAME and --key say, for a command that asks for permits of it.
func withAsker(ctx context.Context, cmd *cli.Command, do func(*shardlimit.Limiter) error) error {
	name, err := nameArgument(cmd)
	if err != nil {
		return err
	}
	p, err := readProcess(cmd)
	if err != nil {
		return err
	}
	p.config.CallTimeout, p.config.OnOutage = adminCall, shardlimit.WaitOut
	client, closeAll, err := p.start()
	if err != nil {
		return err
	}
	defer closeAll()
	limiter, err := openOnly(ctx, cmd, client, name)
	if err != nil {
		return err
	}
	return do(limiter)
}

func readProcess(cmd *cli.Command) (process, error) {
	p := process{embedded: cmd.Bool("embedded")}
	p.config = shardlimit.Config{KeyPrefix: cmd.String("prefix"), Participant: cmd.String("participant"),
		Weight: cmd.Float("weight"), NodeTimeout: cmd.Duration("node-timeout")}
	if p.config.Weight == 0 {
		// in the library that means 1
		return p, usagef("--weight is 0; it must be %v to %v", shardlimit.MinWeight, shardlimit.MaxWeight)
	}
	redis, cluster, sentinel := cmd.String("redis"), cmd.String("cluster"), cmd.String("sentinel")
	if !p.embedded {
		var err error
		p.config.Nodes, err = target(cmd)
		return p, err
	}
	if redis != "" || cluster != "" || sentinel != "" {
		return p,
			usagef("--embedded needs no other server; leave --redis, --cluster and --sentinel out (also " +
				"SHARDLIMIT_REDIS and so on in the environment)")
	}
	if cmd.String("tls-ca") != "" || cmd.String("tls-client-cert") != "" || cmd.String("tls-client-key") != "" {
		return p, usagef("--embedded has no TLS; leave --tls-ca, --tls-client-cert and --tls-client-key out")
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
