package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
	"github.com/urfave/cli/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/node"
)

// targetFlags say where Redis is.
func targetFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "redis", Sources: cli.EnvVars("SHARDLIMIT_REDIS"),
			Usage: "independent servers, `URL,URL...`: host:port, redis://user:password@host:port/db, rediss://..., " +
				"or NAME=URL, by which name the node is known"},
		&cli.StringFlag{Name: "cluster", Sources: cli.EnvVars("SHARDLIMIT_CLUSTER"),
			Usage: "a Redis Cluster, `URL,host:port...`: one or more of its nodes"},
		&cli.StringFlag{Name: "sentinel", Sources: cli.EnvVars("SHARDLIMIT_SENTINEL"),
			Usage: "a Sentinel set, `MASTER@URL,host:port...`: one or more sentinels; the first may be " +
				"redis://user:password@host:port/db or rediss://..., which is how to log in to the servers, with " +
				"?sentinel_user=...&sentinel_password=... for the sentinels themselves"},
		&cli.StringFlag{Name: "prefix", Sources: cli.EnvVars("SHARDLIMIT_PREFIX"), Value: shardlimit.DefaultKeyPrefix,
			Usage: "beginning of every Redis key, `TEXT` without braces"},
	}, tlsFlags()...)
}

const chooseTarget = "say where Redis is with one of --redis host:port,host:port, --cluster host:port or --sentinel " +
	"master@host:port"

// nodes reads the flags of targetFlags. A node may be written NAME=URL; without
// a name it is known by its first address, as in the library.
func nodes(redis, cluster, sentinel string) ([]shardlimit.Node, error) {
	given := 0
	for _, s := range []string{redis, cluster, sentinel} {
		if s != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, usagef(chooseTarget)
	case given > 1:
		return nil,
			usagef("--redis, --cluster and --sentinel exclude each other (also as SHARDLIMIT_REDIS, ..._CLUSTER, "+
				"..._SENTINEL in the environment); %s", chooseTarget)
	case redis != "":
		return redisNodes(redis)
	case cluster != "":
		return clusterNode(cluster)
	}
	return sentinelNode(sentinel)
}

func redisNodes(list string) ([]shardlimit.Node, error) {
	var all []shardlimit.Node
	entries := strings.Split(list, ",")
	for i, entry := range entries {
		found, err := shardlimit.ParseNodes(entry)
		if err == nil {
			all = append(all, found...)
			continue
		}
		where := ""
		if len(entries) > 1 {
			where = fmt.Sprintf("number %d of the list: ", i+1)
		}
		return nil, usagef("--redis: %s%s", where,
			strings.TrimPrefix(err.Error(), shardlimit.ErrInvalidConfig.Error()+": "))
	}
	return all, nil
}

func clusterNode(list string) ([]shardlimit.Node, error) {
	name, list := node.CutName(list)
	first, others, _ := strings.Cut(list, ",")
	option, err := node.ParseURL(first)
	if err != nil {
		return nil, usagef("--cluster: %w", err)
	}
	more, err := addresses(others)
	if err != nil {
		return nil, usagef("--cluster: %w", err)
	}
	option.InitAddress = append(option.InitAddress, more...)
	anyServer(option.TLSConfig)
	return []shardlimit.Node{{Name: name, Redis: option}}, nil
}

func sentinelNode(s string) ([]shardlimit.Node, error) {
	name, s := node.CutName(s)
	master, list, found := strings.Cut(s, "@")
	if !found || master == "" || list == "" {
		return nil, usagef("--sentinel: %q is not MASTER@host:port,host:port", s)
	}
	first, others, _ := strings.Cut(list, ",")
	if !strings.Contains(first, "://") {
		if _, err := addresses(first); err != nil { // sentinels have no port that goes without saying
			return nil, usagef("--sentinel: %w", err)
		}
	}
	option, err := node.ParseURL(first)
	if err != nil {
		return nil, usagef("--sentinel: %w", err)
	}
	more, err := addresses(others)
	if err != nil {
		return nil, usagef("--sentinel: %w", err)
	}
	option.InitAddress = append(option.InitAddress, more...)
	anyServer(option.TLSConfig)
	option.Sentinel = rueidis.SentinelOption{MasterSet: master, TLSConfig: option.TLSConfig}
	if u, err := url.Parse(first); err == nil {
		option.Sentinel.Username, option.Sentinel.Password = u.Query().Get("sentinel_user"), u.Query().Get("sentinel_password")
	}
	return []shardlimit.Node{{Name: name, Redis: option}}, nil
}

// anyServer has every server show a certificate for its own name, and not for that of the first.
func anyServer(c *tls.Config) {
	if c != nil {
		c.ServerName = ""
	}
}

// addresses reads host:port,host:port.
func addresses(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	var all []string
	for _, s := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(s))
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("%q is not host:port", s)
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return all, nil
}
