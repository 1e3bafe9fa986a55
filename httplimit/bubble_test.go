package httplimit_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// inBubble runs a test in a bubble of time, with a node whose clock is the bubble's. connect makes
// a client of it, as each process has one.
func inBubble(t *testing.T, test func(t *testing.T, connect func() *shardlimit.Client)) {
	t.Helper()
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		node := redissim.NewServer(time.Now)
		node.Restart()
		front := miniredis.NewMiniRedis()
		conn, err := front.Dial() // starts it, without a port
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		front.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
			return node.Answer(c, cmd, args...)
		})
		test(t, func() *shardlimit.Client {
			client, err := shardlimit.New(shardlimit.Config{CallTimeout: time.Second, Nodes: []shardlimit.Node{
				{Name: "n", Redis: redistest.Slim(rueidis.ClientOption{
					InitAddress: []string{"n:1"}, ForceSingleClient: true, DisableCache: true,
					Dialer: net.Dialer{KeepAlive: time.Hour},
					DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
						return front.Dial()
					},
				})}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return client
		})
	})
}
