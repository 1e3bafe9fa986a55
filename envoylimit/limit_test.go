package envoylimit

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// A request that came before the configuration was replaced may want to change the limit on Redis
// after that. The later configuration stays in force.
func TestARequestOfAFormerConfigurationChangesNothing(t *testing.T) {
	servers, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := New(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(requests string) *limit {
		t.Helper()
		config, err := rules.Parse([]rules.File{{Name: "f.yaml", Content: []byte(
			"domain: d\ndescriptors: [{key: a, value: x, rate_limit: {unit: hour, requests_per_unit: " + requests +
				"}}]")}},
			rules.Options{})
		if err == nil {
			err = s.Apply(t.Context(), config)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.live.Load().limits[config.Rules()[0]]
	}
	former := apply("5")
	if _, err := former.limiter(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	later := apply("7")
	former.handle.setting.Lock()
	err = former.set(t.Context())
	former.handle.setting.Unlock()
	if got := later.handle.declared.Load().limit(); err != nil || got.Permits != 7 || !later.settled.Load() {
		t.Errorf("%v, settled %v, %v", got, later.settled.Load(), err)
	}
}
