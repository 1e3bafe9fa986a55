package register

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
)

// A place that forgot the record of a limit in use is restored when the record is read in the
// background. Then another place may be lost.
func TestAPlaceThatForgotALimitIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []node.Spec
		var servers []*miniredis.Miniredis
		for _, name := range []string{"a", "b", "c"} {
			spec, redis := servedBy(name)
			nodes, servers = append(nodes, spec), append(servers, redis)
		}
		p := listing(t, Subject{Name: "l", ID: "n:l"}, wanted(10, 1), nodes...)
		if err := p.register.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole := func() error {
			return p.register.Read(t.Context(), false, true, func(record.Reading) error { return nil })
		}
		servers[0].FlushAll()
		if err := whole(); !errors.Is(err, record.ErrBlank) {
			t.Fatalf("it forgot nothing: %v", err)
		}
		epoch := p.Layout().Epoch
		if err := p.register.lookUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := whole(); err != nil || p.Layout().Epoch != epoch {
			t.Errorf("%v, epoch %d after %d", err, p.Layout().Epoch, epoch)
		}
	})
}
