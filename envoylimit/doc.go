// Package envoylimit is Envoy's rate limit service (envoy.service.ratelimit.v3) with shardlimit: it
// reads the configuration of github.com/envoyproxy/ratelimit, and limits exactly over many Redis
// nodes.
//
//	service, err := envoylimit.New(client, envoylimit.Options{})
//	err = service.Load(ctx, "/etc/ratelimit")
//	go service.Follow(ctx, "/etc/ratelimit")
//	service.Register(grpcServer)
//
// The parser and the matching of descriptors are in the package rules.
package envoylimit
