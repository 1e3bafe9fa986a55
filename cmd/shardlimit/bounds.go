package main

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// grpcBounds keep one client of Envoy's service from holding all that there is. Those of HTTP are
// in internal/serve.
type grpcBounds struct {
	streams      uint32        // calls at once on a connection; further ones wait at the client
	message      int           // bytes of a request: many descriptors of long values
	header       uint32        // bytes of a request's head
	age, ageOut  time.Duration // of a connection, which then is left for a new one; its calls may end
	handshake    time.Duration // to begin a connection
	ping, silent time.Duration // a silent client is asked after ping, and gone if silent for so long
	pinged       time.Duration // no client asks more often
}

// usualBounds are those of serve. Envoy has a connection for each worker, and leaves it when told.
var usualBounds = grpcBounds{streams: 1024, message: 1 << 20, header: 64 << 10, age: 30 * time.Minute,
	ageOut: time.Minute, handshake: 10 * time.Second, ping: time.Minute, silent: 20 * time.Second,
	pinged: 5 * time.Second}

func (b grpcBounds) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(b.streams), grpc.MaxRecvMsgSize(b.message), grpc.MaxHeaderListSize(b.header),
		grpc.ConnectionTimeout(b.handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: b.age, MaxConnectionAgeGrace: b.ageOut,
			Time: b.ping, Timeout: b.silent}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: b.pinged, PermitWithoutStream: true}),
	}
}
