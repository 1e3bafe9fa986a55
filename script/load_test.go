package script

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// TestLoadEnds: what those who wait for a load do when it has ended: go on, load themselves, or
// fail as it failed.
func TestLoadEnds(t *testing.T) {
	failure := errors.New("no server")
	for name, c := range map[string]struct {
		loaded bool
		failed error
		check  func(version uint64, done func(bool, error), err error) bool
	}{
		"loaded": {true, nil, func(version uint64, done func(bool, error), err error) bool {
			return version == 1 && done == nil && err == nil
		}},
		"its caller gave up": {false, nil, func(version uint64, done func(bool, error), err error) bool {
			return done != nil && err == nil
		}},
		"failed": {false, failure, func(version uint64, done func(bool, error), err error) bool {
			return errors.Is(err, failure) && NotExecuted(err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l load
				_, done, err := l.ready(t.Context(), 0)
				if done == nil || err != nil {
					t.Fatal("the first caller does not load", err)
				}
				ended := false
				go func() {
					version, done, err := l.ready(t.Context(), 0)
					if !c.check(version, done, err) {
						t.Errorf("the waiter: version %d, loads %v: %v", version, done != nil, err)
					}
					ended = true
				}()
				synctest.Wait()
				if ended {
					t.Error("the second caller does not wait")
				}
				done(c.loaded, c.failed)
				synctest.Wait()
				if !ended {
					t.Error("the second caller still waits")
				}
			})
		})
	}
}

// TestLoadTellsOthers: what a loader's fate means for those who wait for it.
func TestLoadTellsOthers(t *testing.T) {
	m := miniredis.RunT(t)
	client := miniClient(t, m)
	endpoint, ref := NewEndpoint(client), ShardKeys("", "t", "limit")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fate := func(ctx context.Context) (loaded bool, failed error) {
		_, _ = endpoint.load(ctx, &programs[recordPrograms+peekProgram],
			func(l bool, f error) { loaded, failed = l, f },
			[]string{ref.head, ref.Ledger()}, nil)
		return loaded, failed
	}
	if loaded, failed := fate(context.Background()); !loaded || failed != nil {
		t.Error("a load:", loaded, failed)
	}
	if loaded, failed := fate(gone); loaded || failed != nil {
		t.Error("one that gave up:", loaded, failed)
	}
	if err := m.Set(ref.head, "foreign"); err != nil {
		t.Fatal(err)
	}
	if loaded, failed := fate(context.Background()); !loaded || failed != nil {
		t.Error("one whose script found foreign state:", loaded, failed)
	}
	m.SetError("LOADING")
	if loaded, failed := fate(context.Background()); loaded || failed == nil || !NotExecuted(failed) {
		t.Error("one that the server refused:", loaded, failed)
	}
	if _, isRedis := rueidis.IsRedisErr(client.Do(context.Background(), client.B().Ping().Build()).Error()); !isRedis {
		t.Error("the server did not refuse")
	}
}
