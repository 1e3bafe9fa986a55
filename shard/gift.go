package shard

import (
	"cmp"
	"math/bits"
)

// Gift is what is in a bucket whose share is raised: so many permits for so much new room.
type Gift struct{ Permits, Room int64 }

// Gifts returns, for each shard that a [Step] raises, the permits that come into its bucket with
// the share: those that shards gave up in the same observations, and no others. It is for an
// algorithm whose shards are buckets. A burst of 0 is the share. It returns nil where nothing is
// raised.
//
// What is given sums to no more than what was given up:
//
//   - what a bucket said that it took out because its share or burst fell (Gave), at most the part
//     of the burst that its Start was of the old limit: an old snapshot may have brought back a
//     share that others have, and a bucket full of it. Where a Start is unknown, all of it;
//   - what was in a bucket that nobody used: of the burst, the part that its Start was of the old
//     limit. That counts as if the greater burst had been in force before, so it may be more than
//     was in it, and is not more than its part of the greater bound;
//   - of a shard under another algorithm, a permit for each permit of share that was given up
//     unused, no more than its part of the burst. Where the limit rises too, new permits come
//     empty: a raise is filled in the proportion of what was given up to what may be raised.
//
// Room counts what is raised by the observations. A bucket in which another driver raised some of
// it takes as much less of the gift.
func (l Layout) Gifts(obs []Observation, raise []int64) []Gift {
	rooms, total := l.rooms(obs, raise)
	if total == 0 {
		return nil
	}
	pool, own := l.givenUp(obs, rooms)
	gifts := make([]Gift, len(rooms))
	for j, room := range rooms {
		if room == 0 {
			continue
		}
		permits := min(own[j], room)
		if left := total - sum(own); left > 0 && pool > 0 {
			permits += min(scale(min(pool, left), room-permits, left), room-permits)
		}
		gifts[j] = Gift{permits, room}
	}
	return gifts
}

// Opening returns the floors that may be proposed before any shard was seen, so that a raise is in
// force as soon as a shard hears of it. A bucket that does not exist is created full: it is left
// out if that were more than nobody used of the limit before.
func (l Layout) Opening(buckets bool) []int64 {
	floors, before := l.Plan(nil).Raise, l.before()
	for j, s := range l.Shards {
		if buckets && floors[j] > 0 &&
			scale(s.capacity(), floors[j], s.Share) > scale(l.capacity(), max(s.Start, 0), before) {
			floors[j] = 0
		}
	}
	return floors
}

// rooms returns how much room in its bucket each raise brings, and all of them together.
func (l Layout) rooms(obs []Observation, raise []int64) (rooms []int64, total int64) {
	rooms = make([]int64, len(l.Shards))
	for j, s := range l.Shards {
		if s.Share == 0 || j >= len(raise) {
			continue
		}
		if held := observed(obs, j).Share; raise[j] > held {
			rooms[j] = scale(s.capacity(), min(raise[j], s.Share), s.Share) - scale(s.capacity(), held, s.Share)
			total += rooms[j]
		}
	}
	return rooms, total
}

// givenUp returns what each shard gave up that may come back to itself, at most its room, and what
// else there is for all.
func (l Layout) givenUp(obs []Observation, rooms []int64) (pool int64, own []int64) {
	own = make([]int64, len(l.Shards))
	before := l.before()
	for j, s := range l.Shards {
		o := observed(obs, j)
		if o.Epoch != l.Epoch || o.Closed {
			continue
		}
		gave := max(o.Gave, 0)
		if o.Fresh && s.Start > 0 && s.Algorithm == l.Algorithm {
			there := scale(s.capacity(), min(o.Share, s.Share), s.Share) // it was created full
			gave += max(scale(l.capacity(), s.Start, before)-there, 0)
		}
		if s.Start != Unknown && before > 0 {
			gave = min(gave, scale(l.capacity(), s.Start, before))
		}
		own[j] = min(gave, rooms[j])
		pool += gave - own[j]
	}
	return pool + l.filled(obs, before, sum(rooms)-sum(own)), own
}

// before returns how many permits the shards had before; 0 if that is not known.
func (l Layout) before() (permits int64) {
	for _, s := range l.Shards {
		if s.Start == Unknown {
			return 0
		}
		permits += s.Start
	}
	return permits
}

// filled returns how much of the room may be full because so many permits of the limit before,
// under another algorithm, were not used.
func (l Layout) filled(obs []Observation, before, room int64) int64 {
	var given, unused int64
	for j, s := range l.Shards {
		if o := observed(obs, j); s.Algorithm != l.Algorithm && s.Start > 0 && o.Epoch == l.Epoch && !o.Closed {
			gave := max(s.Start-o.Share, 0)
			given += gave
			if unused += min(max(o.Unused, 0), gave); o.Fresh {
				unused += gave - min(max(o.Unused, 0), gave)
			}
		}
	}
	if burst := l.capacity(); burst > l.Permits { // no more permits than were unused
		room = scale(room, l.Permits, burst)
	}
	return scale(room, unused, given+max(l.Permits-before, 0))
}

// capacity is the burst of all shards, or of one.
func (l Layout) capacity() (sum int64) {
	for _, s := range l.Shards {
		sum += s.capacity()
	}
	return sum
}

func (s Shard) capacity() int64 { return cmp.Or(s.Burst, s.Share) }

func sum(all []int64) (sum int64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// scale returns floor(n*part/whole) for 0 <= part <= whole, exactly; 0 if whole is 0.
func scale(n, part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}
