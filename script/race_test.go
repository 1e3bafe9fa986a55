//go:build race

package script

// underRace: a walk of one goroutine takes eight times as long then, and has no races.
const underRace = true
