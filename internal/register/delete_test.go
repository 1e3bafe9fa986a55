package register

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A read of the record that waits while the limit is deleted finds no record. It does not count the
// process as a participant of what is gone.
func TestAReadAfterADeletionLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		p := processOn(t, redis, wanted(10, 1))
		if len(redis.Keys()) == 0 {
			t.Fatal("nothing is stored")
		}
		if err := p.register.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		deleted, read := make(chan error), make(chan error)
		go func() { deleted <- p.register.Delete(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait() // first come, first served
		go func() { read <- p.register.Ask(t.Context(), false) }()
		synctest.Wait()
		p.register.End()
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, ErrDeleted) {
			t.Errorf("%v", err)
		}
		if _, err := p.register.Look(t.Context()); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Minute)
		for _, key := range redis.Keys() {
			if strings.Contains(key, "}:p:") {
				t.Errorf("a participant is left: %q", key)
			}
		}
		if err := p.register.Join(t.Context()); !errors.Is(err, ErrDeleted) {
			t.Errorf("%v", err)
		}
	})
}
