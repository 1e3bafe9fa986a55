package envoylimit

import (
	"testing"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A request that came before the configuration was replaced may want to change the limit on Redis
// after that. The later configuration stays in force.
func TestARequestOfAFormerConfigurationChangesNothing(t *testing.T) {
	s, err := New(limittest.InProcess(t, 1).Client(t), Options{})
	limittest.Must(t, err)
	apply := func(requests string) *limit {
		t.Helper()
		config, err := rules.Parse([]rules.File{{Content: []byte("domain: d\ndescriptors: " +
			"[{key: a, value: x, rate_limit: {unit: hour, requests_per_unit: " + requests + "}}]")}})
		limittest.Must(t, err)
		limittest.Must(t, s.Apply(t.Context(), config))
		return s.live.Load().limits[config.Rules()[0]]
	}
	former := apply("5")
	limittest.Must(t, limittest.Err(former.limiter(t.Context(), "")))
	later := apply("7")
	former.handle.setting.Lock()
	err = former.set(t.Context())
	former.handle.setting.Unlock()
	if got := (*later.handle.declared.Load()).Limit(); err != nil || got.Permits != 7 || !later.settled.Load() {
		t.Errorf("%v, settled %v, %v", got, later.settled.Load(), err)
	}
}
