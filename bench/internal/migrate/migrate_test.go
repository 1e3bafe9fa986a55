package migrate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Both handlers let ten orders of a user pass, refuse the eleventh, and serve another user.
func TestOrders(t *testing.T) {
	fleet := limittest.InProcess(t, 1)
	users := fleet.Family(t, shardlimit.PerMinute(10))
	theirs := redis.NewClient(&redis.Options{Addr: fleet.Nodes[0].Redis.InitAddress[0], ReadTimeout: time.Minute})
	defer func() { _ = theirs.Close() }()
	served := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }
	for name, handler := range map[string]http.HandlerFunc{
		"redis_rate": ordersByRedisRate(redis_rate.NewLimiter(theirs), served), "shardlimit": orders(users, served),
	} {
		statuses := map[int]int{}
		ask := func(user string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
			r.Header.Set("X-User", user)
			w := httptest.NewRecorder()
			handler(w, r)
			statuses[w.Code]++
			return w
		}
		for range 10 {
			ask("ann")
		}
		if refused := ask("ann"); refused.Header().Get("Retry-After") == "" {
			t.Errorf("%s: the eleventh is told no time: %v", name, refused.Header())
		}
		ask("bob")
		if statuses[http.StatusAccepted] != 11 || statuses[http.StatusTooManyRequests] != 1 {
			t.Errorf("%s: %v", name, statuses)
		}
	}
}

// Both crawlers fetch all pages, and stop when their context ends.
func TestCrawl(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	pages := strings.Fields("a b c d e f g h i j k l")
	for name, crawler := range map[string]func(context.Context, func(string)) error{
		"x/time/rate": func(ctx context.Context, fetch func(string)) error { return crawlByXTime(ctx, pages, fetch) },
		"shardlimit":  func(ctx context.Context, fetch func(string)) error { return crawl(ctx, client, pages, fetch) },
	} {
		var got []string
		if err := crawler(t.Context(), func(page string) { got = append(got, page) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Join(got, "") != strings.Join(pages, "") {
			t.Errorf("%s fetched %v", name, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := crawler(ctx, func(string) { cancel() }); err == nil {
			t.Errorf("%s goes on after its context has ended", name)
		}
	}
}

// A worker that waits for no permit pulls what the limit has, and ends.
func TestWork(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	limittest.Limiter(t, client, "pulls", shardlimit.PerHour(20)) // a worker that declares another limit joins it
	pulled := 0
	done, err := work(t.Context(), client, time.Second, func() { pulled++ })
	if err != nil || done != 20 || pulled != 20 {
		t.Errorf("%d done, %d pulled, %v", done, pulled, err)
	}
}

func TestRetryAfter(t *testing.T) {
	users := limittest.InProcess(t, 1).Family(t, tenAMinute)
	ordered := 0
	for range 10 {
		if after, err := retryAfter(t.Context(), users, "ann", func() { ordered++ }); err != nil || after != 0 {
			t.Fatal(after, err)
		}
	}
	after, err := retryAfter(t.Context(), users, "ann", func() { ordered++ })
	if err != nil || after <= 0 || after > 6*time.Second || ordered != 10 {
		t.Errorf("%d ordered, again after %s, %v", ordered, after, err)
	}
}

// Each page shows what is here. That Go stands here is looked at with all other pages.
func TestPagesShowTheCode(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```(go|java)\n(.*?)^```$")
	for page, file := range map[string]string{"redis_rate.md": "", "redisson.md": "RedissonWorker.java",
		"x-time-rate.md": "", "bucket4j.md": "Bucket4jOrders.java"} {
		text, err := os.ReadFile("../../../docs/migrate/" + page)
		limittest.Must(t, err)
		shown := blocks.FindAllStringSubmatch(string(text), -1)
		if len(shown) < 2 {
			t.Errorf("%s shows %d pieces of code", page, len(shown))
		}
		for _, block := range shown {
			java, err := os.ReadFile("testdata/" + file)
			if block[1] == "java" && (err != nil || !strings.Contains(string(java), block[2])) {
				t.Errorf("%s shows what is not in %s, %v:\n%s", page, file, err, block[2])
			}
		}
	}
}
