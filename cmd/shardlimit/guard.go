package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// guardFlags say who may use what serve serves.
func guardFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "token-file",
			Usage: "answer only requests that bear one of the tokens in this `FILE`, one a line (also " +
				"SHARDLIMIT_TOKEN)"},
		&cli.StringFlag{Name: "tls-cert", Usage: "certificate to serve with, a PEM `FILE`; read again when it changes"},
		&cli.StringFlag{Name: "tls-key", Usage: "its private key, a PEM `FILE`"},
	}
}

// guard is who may use a server, and how it proves who it is.
type guard struct {
	tokens serve.Tokens // nil: everybody

	cert, key string // files, which each handshake reads: they may be renewed; "": no TLS
}

func readGuard(cmd *cli.Command) (g guard, err error) {
	file, cert, key := cmd.String("token-file"), cmd.String("tls-cert"), cmd.String("tls-key")
	token, given := os.LookupEnv("SHARDLIMIT_TOKEN") // if it is empty, somebody wanted one
	text, source := []byte(token), "SHARDLIMIT_TOKEN"
	if file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return g, usagef("--token-file: %w", err)
		}
		source = "--token-file: " + file
	}
	if file != "" || given {
		if g.tokens, err = serve.ParseTokens(text); err != nil {
			return g, usagef("%s: %w", source, err)
		}
	}
	if cert != "" || key != "" {
		if _, err := keyPair("tls-cert", cert, "tls-key", key); err != nil {
			return g, err
		}
		g.cert, g.key = cert, key
	}
	return g, nil
}

// warn tells who may use what an address serves, if that is anybody.
func (g guard) warn(con console, a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); g.tokens == nil && !(ok && tcp.IP.IsLoopback()) {
		_, _ = fmt.Fprintf(con.err, "shardlimit: whoever reaches %s may use the limits; see --token-file\n", a)
	}
}

// tls is nil without --tls-cert. Files that are being replaced leave the former certificate in use.
func (g guard) tls() *tls.Config {
	if g.cert == "" {
		return nil
	}
	var last atomic.Pointer[tls.Certificate]
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(g.cert, g.key)
			if err == nil {
				last.Store(&pair)
			} else if last.Load() != nil {
				err = nil
			}
			return last.Load(), err
		}}
}

// grpc are the same for Envoy, within bounds. Health is told to everybody, as over HTTP.
func (g guard) grpc() []grpc.ServerOption {
	options := bounds()
	if c := g.tls(); c != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	return append(options, grpc.UnaryInterceptor(g.admit))
}

func (g guard) admit(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any,
	error) {
	if info.FullMethod != grpc_health_v1.Health_Check_FullMethodName {
		borne := metadata.ValueFromIncomingContext(ctx, "authorization")
		if !g.tokens.Allow(strings.Join(borne, ", ")) { // two are none that is valid
			return nil, status.Error(codes.Unauthenticated, "the call does not bear a token that is valid here")
		}
	}
	return handler(ctx, request)
}
