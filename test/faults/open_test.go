package faults

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Servers that were started again with all that they had, or whose replicas were promoted, have
// limits that Open finds, whoever asks first: a job that only opens need not wait for another one.
func TestALimitIsOpenedAfterItsServersWereRestarted(t *testing.T) {
	all := func(string) bool { return true }
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := limittest.BubbledNodes(t, nodes)
				first := f.Client(t)
				l := limittest.Limiter(t, first, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
				if d, err := l.AllowN(t.Context(), 4); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				first.Close()
				for _, s := range servers {
					image := s.Redis.Save(all)
					s.Redis.Restart()
					s.Redis.Load(image, all)
				}
				time.Sleep(time.Minute)
				l, err := f.Client(t).Open(t.Context(), "l")
				if err != nil {
					t.Fatal(err)
				}
				if s, err := l.Peek(t.Context()); err != nil || s.Used != 4 {
					t.Errorf("%d used, %v", s.Used, err)
				}
				if err := l.SetLimit(t.Context(), shardlimit.Limit{Permits: 20, Per: time.Hour}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A read in the background that goes on while a limit is deleted does not bring it back.
func TestADeletedLimitDoesNotComeBack(t *testing.T) {
	for slow := range 3 {
		t.Run(fmt.Sprint("node ", slow, " is slow"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := limittest.BubbledNodes(t, 3)
				c := f.Client(t)
				limittest.Limiter(t, c, "other", shardlimit.Limit{Permits: 10, Per: time.Hour})
				pause := func(d time.Duration) { servers[slow].Paused.Store(time.Now().Add(d).UnixNano()) }
				pause(200 * time.Millisecond) // the record of the limit is begun without it
				l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
				time.Sleep(16 * time.Second)
				pause(60 * time.Millisecond) // the record is read again, and this one waited for
				for range 3 {
					_, _ = l.Allow(t.Context()) // it may meet the slow one
				}
				time.Sleep(3 * time.Millisecond)
				if err := l.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if _, err := f.Client(t).Open(t.Context(), "l"); !errors.Is(err, shardlimit.ErrNotFound) {
					t.Errorf("it is back: %v", err)
				}
			})
		})
	}
}
