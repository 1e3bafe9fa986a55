package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Every limit and family is found once, whichever nodes keep its record, and none of
// another prefix.
func TestScanFindsEveryName(t *testing.T) {
	servers, err := embedded.Start(3)
	limittest.Must(t, err)
	defer servers.Close()
	addresses := []string{servers.Addr(0), servers.Addr(1), servers.Addr(2)}
	declare := func(prefix string, limits, families []string) {
		client := clientOf(t, []string{"--prefix", prefix, "--redis", strings.Join(addresses, ",")})
		for _, name := range limits {
			limittest.Limiter(t, client, name, shardlimit.PerHour(10))
		}
		for _, name := range families {
			limittest.Passes(t, limittest.Family(t, client, name, shardlimit.PerHour(10)).Limiter("key"))
		}
	}
	declare("p[a-z]*:", []string{"a}:m:x:limit:n:b", "mails", "n:mails", "é\x00"}, []string{"mails", "users"})
	declare("pq:", []string{"another"}, nil)

	names := func(prefix string) (got []string, err error) {
		all, err := scan(t.Context(), servers.Nodes(), prefix)
		for _, s := range all {
			got = append(got, s.kind+" "+s.name)
		}
		return got, err
	}
	got, err := names("p[a-z]*:")
	if want := []string{"limit a}:m:x:limit:n:b", "limit mails", "limit n:mails", "limit é\x00", "family mails",
		"family users"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	limittest.Must(t, servers.Stop(1))
	got, err = names("pq:")
	if err == nil || !strings.Contains(err.Error(), "cannot reach "+addresses[1]) ||
		!slices.Equal(got, []string{"limit another"}) {
		t.Errorf("with a node away: %+v, %v", got, err)
	}
}
