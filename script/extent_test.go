package script

import "github.com/shardlimit/shardlimit/internal/extent"

func init() { extent.FewerDraws() }
