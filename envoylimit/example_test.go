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
	servers := must(embedded.Start(1))
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(),
		CallTimeout: time.Minute})) // the patience of a test; programs leave it out
	service := must(envoylimit.New(client, envoylimit.Options{}))
	return service, func() { client.Close(); servers.Close() }
}

// must returns what a call returned that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
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
	config := must(rules.Parse([]rules.File{{Name: "shop.yaml", Content: []byte(exampleConfig)}}))
	if err := service.Apply(context.Background(), config); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		answer := must(service.ShouldRateLimit(context.Background(), ask("shop", "remote_address=192.0.2.7")))
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
	if err := service.Load(ctx, path); err != nil {
		log.Fatal(err)
	}
	go service.Follow(ctx, path)
	server := grpc.NewServer()
	service.Register(server)
	fmt.Println(len(server.GetServiceInfo()), "services")
	// Output: 2 services
}

// A tool can check a configuration before a service loads it.
func ExampleRead() {
	path := filepath.Join(os.TempDir(), "shardlimit-example-check.yaml")
	if err := os.WriteFile(path, []byte(exampleConfig), 0o600); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.Remove(path) }()
	config := must(rules.Parse(must(envoylimit.Read(path))))
	fmt.Println(len(config.Rules()), "rule")
	// Output: 1 rule
}
