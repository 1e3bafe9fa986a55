// Command quickstart is the program of docs/howto-grpc.md.
package main

import (
	"context"
	"net"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"google.golang.org/grpc"
)

func main() {
	client := must(shardlimit.New(shardlimit.Config{Nodes: must(shardlimit.ParseNodes("127.0.0.1:6379"))}))
	callers := must(client.Family(context.Background(), "callers", shardlimit.PerSecond(10)))
	limit := grpclimit.New(grpclimit.PerKey(callers, grpclimit.PeerIP), grpclimit.Options{})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	panic(server.Serve(must(net.Listen("tcp", ":50051")))) // when its services are registered
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
