package register

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

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
		if err := p.register.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		deleted, read := make(chan error), make(chan error)
		go func() { deleted <- p.register.Delete(t.Context()) }()
		synctest.Wait() // first come, first served
		go func() { read <- p.register.sync(t.Context()) }()
		synctest.Wait()
		p.register.end()
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, ErrDeleted) {
			t.Errorf("%v", err)
		}
		if keys := redis.Keys(); !slices.Equal(keys, []string{"{node}:i"}) { // the server's name
			t.Errorf("left behind: %q", keys)
		}
		if err := p.register.Join(t.Context()); !errors.Is(err, ErrDeleted) {
			t.Errorf("%v", err)
		}
	})
}
