package register

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/script"
)

// three returns three nodes, and their servers.
func three() (nodes []node.Spec, servers []*miniredis.Miniredis) {
	for _, name := range []string{"a", "b", "c"} {
		spec, redis := servedBy(name)
		nodes, servers = append(nodes, spec), append(servers, redis)
	}
	return nodes, servers
}

// What stands in place of a record is foreign where the other places are no majority. While they
// could be one, it is an outage.
func TestAForeignPlaceAndOneThatIsDown(t *testing.T) {
	for _, foreign := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			nodes, servers := three()
			first := listing(t, Subject{Name: "l", ID: "n:l"}, wanted(10, 1), nodes...)
			if err := first.register.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range servers[:foreign] {
				for _, key := range s.Keys() {
					if strings.Contains(key, "}:m:") && strings.HasSuffix(key, ":limit:n:l") {
						s.Del(key)
						if err := s.Set(key, "something else"); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			servers[2].SetError("LOADING it is being started")
			err := listing(t, Subject{Name: "l", ID: "n:l"}, wanted(10, 1), nodes...).register.Join(t.Context())
			if errors.Is(err, script.ErrForeignState) != (foreign == 2) || foreign == 1 && err != nil {
				t.Errorf("%d foreign: %v", foreign, err)
			}
		})
	}
}

// A place that forgot the record of a limit in use is restored when the record is read in the
// background. Then another place may be lost.
func TestAPlaceThatForgotALimitIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, servers := three()
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
