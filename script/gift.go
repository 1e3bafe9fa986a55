package script

import "github.com/shardlimit/shardlimit/internal/columns"

// Gift is what comes into a token bucket with a share that rises: so many permits for so much new
// room, for less room as much less, and never more than the room. So permits that other shards gave
// up come with the capacity that they gave up, and once.
type Gift struct{ Permits, Room int64 }

// forRoom returns what of the gift there is for so much new room.
func (g Gift) forRoom(rise int64) int64 {
	if g.Permits == 0 || rise <= 0 {
		return 0
	}
	permits := g.Permits
	if rise < g.Room {
		permits, _ = mulDiv(permits, rise, 0, g.Room)
	}
	return min(permits, rise)
}

func (g Gift) check(groups int) error {
	if g == (Gift{}) {
		return nil
	}
	if g.Permits < 0 || g.Room < 1 || g.Permits > g.Room || g.Room > MaxPermits || groups > 0 {
		return invalid("a gift of %d for %d, with %d groups", g.Permits, g.Room, groups)
	}
	return nil
}

// text is the gift as tokenbucket.lua reads it.
func (g Gift) text() string {
	var room [26]byte
	return string(columns.Gift.Append(room[:0], 0, g.Permits, g.Room))
}
