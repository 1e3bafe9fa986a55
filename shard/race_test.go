package shard_test

import "github.com/shardlimit/shardlimit/internal/race"

func init() { race.FewerDraws() }
