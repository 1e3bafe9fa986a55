package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
)

func TestARecordIsDeletedAndDeclaredAgain(t *testing.T) {
	for _, moves := range []bool{false, true} {
		inTown(t, "abcd", func(t *testing.T, w town, b *Book) {
			if moves {
				must(t, b.Move(t.Context(), without("abcd", places(t, b).Names[0])))
				write(t, limit(b), "v")
			}
			must(t, limit(b).Delete(t.Context()))
			other := limit(w.process(t, "abcd"))
			if got, err := look(t, other, false); err != nil || got.Exists {
				t.Errorf("moved %v: %+v, %v", moves, got, err)
			}
			if got, err := other.Peek(t.Context()); err != nil || got.Exists {
				t.Errorf("moved %v: %+v, %v", moves, got, err)
			}
			if _, err := other.Change(t.Context(), func(found Reading) (string, error) {
				if found.Exists {
					t.Errorf("%+v", found)
				}
				return "again", nil
			}); err != nil {
				t.Error(err)
			}
			if got := read(t, limit(b)); got.Value != "again" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A look writes nothing, wherever the record is, and where there is none.
func TestPeekWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "abcd")
		peek := func(name, want string) {
			t.Helper()
			time.Sleep(time.Second) // until other processes have done what they do in the background
			b := w.process(t, "abcd")
			before := w.content()
			for range 2 {
				got, err := limit(b).Peek(t.Context())
				if err != nil || got.Value != want || got.Exists != (want != "") {
					t.Errorf("%s: %+v, %v", name, got, err)
				}
			}
			synctest.Wait()
			if after := w.content(); !maps.EqualFunc(before, after, func(was, is kept) bool {
				return was.value == is.value && is.ms <= was.ms // else a command had it live on
			}) {
				t.Errorf("%s: %v became %v", name, before, after)
			}
		}
		peek("nothing at all", "")
		b := w.process(t, "abcd")
		places(t, b)
		peek("no record", "")
		write(t, limit(b), "v")
		time.Sleep(time.Minute)
		peek("a record", "v")
		w[places(t, b).Names[0]].Restart()
		peek("a blank place", "v")
		prepare(t, limit(b))
		peek("an open promise", "v")
		must(t, b.Move(t.Context(), without("abcd", places(t, b).Names[1])))
		peek("one that has moved", "v")
	})
}

// A look finds what another process is just beginning: it waits for that.
func TestPeekWaitsForWhatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "abc")
		b := w.process(t, "abc")
		prepare(t, limit(b))
		time.AfterFunc(100*time.Millisecond, func() { write(t, limit(b), "v") })
		if got, err := limit(w.process(t, "abc")).Peek(t.Context()); err != nil || got.Value != "v" {
			t.Errorf("%+v, %v", got, err)
		}
		synctest.Wait()
	})
}

// prepare has all places promise a round that nobody goes on with.
func prepare(t *testing.T, r *Record) {
	t.Helper()
	s, stop := r.mustSit(t), errors.New("stop")
	for range 16 {
		_, _, err := r.round(t.Context(), s, false, func(majority.Found, int64) (string, error) { return "", stop })
		if errors.Is(err, stop) {
			return
		}
	}
	t.Fatal("no promise")
}

// Who finds what he has to change goes on at once; what others may be changing is read again first.
func TestOnlyAnOpenRoundIsReadAgain(t *testing.T) {
	inTown(t, "abc", func(t *testing.T, _ town, b *Book) {
		r := limit(b)
		for _, open := range []bool{false, true} {
			if open {
				prepare(t, r)
			}
			began, heard := time.Now(), 0
			err := r.Read(t.Context(), false, false, func(Reading) error {
				heard++
				return ErrUnsettled
			})
			if again := time.Since(began) >= firstPause; !errors.Is(err, ErrUnsettled) || again != open || heard > 1 {
				t.Errorf("a round is open %v: %v after %s, heard %d times", open, err, time.Since(began), heard)
			}
		}
	})
}

// Many processes that change one record at once all come to their turn.
func TestManyChangeOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "abc")
		var wg sync.WaitGroup
		for i := range 10 {
			r := limit(w.process(t, "abc"))
			places(t, r.book)
			wg.Go(func() {
				for n := range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					if err := add(ctx, r, fmt.Sprint(i, ".", n)); err != nil {
						t.Errorf("process %d, change %d: %v", i, n, err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if got := read(t, limit(w.process(t, "abc"))); strings.Count(got.Value, ",") != 50 {
			t.Errorf("%q", got.Value)
		}
	})
}

// Whatever stands in a place is refused, or means something.
func FuzzReading(f *testing.F) {
	for _, text := range []string{"v{}", "d", "dx", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := reading(majority.Found{Exists: true, Value: text})
		if (err != nil) == (got.Exists || got.Deleted) || err != nil && !errors.Is(err, ErrUnreadable) {
			t.Fatalf("%q: %+v, %v", text, got, err)
		}
	})
}

func FuzzPlaces(f *testing.F) {
	for i, names := range [][]string{{"a"}, {"a", "b", "c"}, {"é"}, {"a", "b", "c", "d", "e"}} {
		f.Add((&Places{Generation: int64(i + 1), Names: names}).encode())
	}
	f.Add(`{"generation":1,"places":[]}`)
	f.Add(`{"generation":1,"places":["a","b","c","d","e","f","g","h","i","j"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodePlaces(text)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Fatalf("%q: an error of another kind: %v", text, err)
			}
			return
		}
		if again, err := decodePlaces(p.encode()); err != nil || again.id() != p.id() {
			t.Fatalf("%q became %+v, and %+v, %v", text, p, again, err)
		}
	})
}
