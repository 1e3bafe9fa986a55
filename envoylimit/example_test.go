package envoylimit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// exampleService is a service of nodes in this process, and how to close both.
func exampleService() (*envoylimit.Service, func()) {
	servers, err := embedded.Start(1)
	if err != nil {
		log.Fatal(err)
	}
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(),
		CallTimeout: time.Minute}) // the patience of a test; programs leave it out
	if err != nil {
		log.Fatal(err)
	}
	service, err := envoylimit.New(client, envoylimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return service, func() { client.Close(); servers.Close() }
}

const exampleConfig = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 1}
`

func ExampleNew() {
	service, done := exampleService()
	defer done()
	config, err := rules.Parse([]rules.File{{Name: "shop.yaml", Content: []byte(exampleConfig)}}, rules.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := service.Apply(context.Background(), config); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		answer, err := service.ShouldRateLimit(context.Background(), ask("shop", "remote_address=192.0.2.7"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.GetOverallCode())
	}
	// Output:
	// OK
	// OVER_LIMIT
}

// A server reads its configuration, and again whenever the file changes.
func ExampleService_Follow() {
	service, done := exampleService()
	defer done()
	path := filepath.Join(os.TempDir(), "shardlimit-example-envoy.yaml")
	if err := os.WriteFile(path, []byte(exampleConfig), 0o600); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.Remove(path) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	source := envoylimit.Source{Path: path}
	if err := service.Load(ctx, source); err != nil {
		log.Fatal(err)
	}
	go service.Follow(ctx, source)
	server := grpc.NewServer()
	service.Register(server)
	fmt.Println(len(server.GetServiceInfo()), "services")
	// Output: 2 services
}
