// Package inside is the way of tests in other packages to the engine behind what users hold. The
// root sets the functions; package limittest uses them. Programs cannot import it.
package inside

import (
	"github.com/shardlimit/shardlimit/internal/call"
)

// Each returns what the engine has of a thing of the root.
var (
	Client  func(client any) *call.Client
	Limiter func(limiter any) *call.Limiter
	Family  func(family any) *call.Family
)
