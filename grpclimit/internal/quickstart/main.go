// Command quickstart is the program of docs/howto/grpc.md.
package main

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
)

func main() {
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes}))
	callers := must(client.Family(context.Background(), "callers", shardlimit.PerSecond(10)))
	limit := grpclimit.New(grpclimit.PerKey(callers, grpclimit.PeerIP), grpclimit.Options{})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())   // your services
	panic(server.Serve(must(net.Listen("tcp", os.Getenv("LISTEN"))))) // :50051
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
