package script

import "github.com/shardlimit/shardlimit/internal/race"

func init() { race.FewerDraws() }
