package redissim

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A pipeline takes one way there and one back, in its order. Nothing of it is answered if a command
// is lost, and what is behind that one never arrives.
func TestPipelineTakesOneWay(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := NewServer(time.Now)
			go s.Serve()
			defer s.Close()
			l := NewLink(s, func(args []string) Fate {
				return Fate{There: 5 * time.Millisecond, Back: 7 * time.Millisecond, Lost: lost && args[0] == "GET"}
			}, func() {})
			began := time.Now()
			got := l.DoMulti(t.Context(), l.B().Set().Key("a").Value("1").Build(), l.B().Get().Key("a").Build(),
				l.B().Set().Key("b").Value("2").Build())
			took, keys := time.Since(began), strings.Join(s.Keys(), " ")
			switch text, err := got[1].ToString(); {
			case lost && (err == nil || got[0].Error() == nil || keys != "a"):
				t.Errorf("lost: %v, %v, keys %s", got[0].Error(), err, keys)
			case !lost && (text != "1" || err != nil || keys != "a b" || took != 12*time.Millisecond):
				t.Errorf("%q, %v, keys %s, after %s", text, err, keys, took)
			}
			if more := l.DoMulti(t.Context()); len(more) != 0 || time.Since(began) != took {
				t.Error("a pipeline of nothing took time")
			}
		})
	}
}

// Scripts rely on times of 16 digits, as servers have them today.
func TestTimeHasAsManyDigitsAsToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if now := strconv.FormatInt(NewServer(time.Now).now(), 10); len(now) != 16 {
			t.Errorf("the TIME of a node in a bubble is %s", now)
		}
	})
}
