package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// environment is the variable that makes this program a service; its value is the Job.
const environment = "SHARDLIMIT_BENCH_ENVOY"

// Ours is the service of the package envoylimit.
var Ours = Kind{Name: "envoylimit", command: func(j Job, _ string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), environment+"="+string(text))
	return cmd, nil
}}

// ServeIfService does nothing, unless this process was started as our service: then it serves until
// it is interrupted, and ends the process. Call it before anything else.
func ServeIfService() {
	text := os.Getenv(environment)
	if text == "" {
		return
	}
	if err := serve([]byte(text)); err != nil {
		fmt.Fprintln(os.Stderr, "bench envoylimit:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text []byte) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var j Job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	config, err := rules.Parse([]rules.File{{Name: "bench.yaml", Content: []byte(j.Config)}}, rules.Options{})
	if err != nil {
		return err
	}
	client, err := shardlimit.New(shardlimit.Config{
		Nodes:       []shardlimit.Node{{Name: "node-0", Redis: server.Option(j.Redis)}},
		CallTimeout: time.Second, // on a loaded machine the default would be a race with the scheduler
	})
	if err != nil {
		return err
	}
	defer client.Close()
	service, err := envoylimit.New(client, envoylimit.Options{})
	if err != nil {
		return err
	}
	if err := service.Apply(ctx, config); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", j.Listen)
	if err != nil {
		return err
	}
	web := grpc.NewServer()
	service.Register(web)
	context.AfterFunc(ctx, web.Stop)
	return web.Serve(listener)
}
