package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/redis/rueidis"
	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/urfave/cli/v3"
)

// targetFlags say where Redis is, and how its servers and this program prove who they are.
func targetFlags() []cli.Flag {
	return []cli.Flag{
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
		&cli.StringFlag{Name: "tls-ca", Sources: cli.EnvVars("SHARDLIMIT_TLS_CA"),
			Usage: "certificates of those who may vouch for rediss:// servers, a PEM `FILE` (default: the system's)"},
		&cli.StringFlag{Name: "tls-client-cert", Sources: cli.EnvVars("SHARDLIMIT_TLS_CLIENT_CERT"),
			Usage: "certificate to show to rediss:// servers, a PEM `FILE`; needs --tls-client-key"},
		&cli.StringFlag{Name: "tls-client-key", Sources: cli.EnvVars("SHARDLIMIT_TLS_CLIENT_KEY"),
			Usage: "its private key, a PEM `FILE`"},
	}
}

// target returns the nodes that the flags of targetFlags name.
func target(cmd *cli.Command) ([]shardlimit.Node, error) {
	redis, cluster, sentinel := cmd.String("redis"), cmd.String("cluster"), cmd.String("sentinel")
	if (redis != "") == (cluster+sentinel != "") || cluster != "" && sentinel != "" {
		return nil, usagef("say where Redis is with one of --redis host:port,host:port, --cluster host:port and " +
			"--sentinel MASTER@host:port; SHARDLIMIT_REDIS, ..._CLUSTER, ..._SENTINEL in the environment count")
	}
	all, err := nodes(redis, cluster, sentinel)
	if err != nil {
		return nil, usageError{err}
	}
	return all, prove(all, cmd.String("tls-ca"), cmd.String("tls-client-cert"), cmd.String("tls-client-key"))
}

// nodes reads the one of the flags that is not empty. A node may be written NAME=URL; without
// a name it is known by its first address, as in the library.
func nodes(redis, cluster, sentinel string) ([]shardlimit.Node, error) {
	if redis != "" {
		all, err := shardlimit.ParseNodes(redis)
		if err != nil {
			err = fmt.Errorf("--redis: %s", strings.TrimPrefix(err.Error(), shardlimit.ErrInvalidConfig.Error()+": "))
		}
		return all, err
	}
	if cluster != "" {
		name, list := node.CutName(cluster)
		option, _, err := several(list)
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w", err)
		}
		return []shardlimit.Node{{Name: name, Redis: option}}, nil
	}
	name, list := node.CutName(sentinel)
	master, list, found := strings.Cut(list, "@")
	if !found || master == "" {
		return nil, fmt.Errorf("--sentinel: %q is not MASTER@host:port,host:port", sentinel)
	}
	option, query, err := several(list)
	if err != nil {
		return nil, fmt.Errorf("--sentinel: %w", err)
	}
	option.Sentinel = rueidis.SentinelOption{MasterSet: master, TLSConfig: option.TLSConfig,
		Username: query.Get("sentinel_user"), Password: query.Get("sentinel_password")}
	return []shardlimit.Node{{Name: name, Redis: option}}, nil
}

// several reads URL,host:port,host:port: servers that belong together. Each shows a certificate for
// its own name, and not for that of the first.
func several(list string) (option rueidis.ClientOption, query url.Values, err error) {
	first, others, more := strings.Cut(list, ",")
	if option, err = node.ParseURL(first); err != nil {
		return option, nil, err
	}
	for more {
		var address string
		address, others, more = strings.Cut(others, ",")
		host, port, err := net.SplitHostPort(strings.TrimSpace(address))
		if err != nil || host == "" || port == "" {
			return option, nil, fmt.Errorf("%q is not host:port", address)
		}
		option.InitAddress = append(option.InitAddress, net.JoinHostPort(host, port))
	}
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = ""
	}
	if u, err := url.Parse(first); err == nil {
		query = u.Query()
	}
	return option, query, nil
}

// prove has nodes that are reached by TLS show a certificate that ca vouches for, and shows them
// that of cert and key. All are names of files, or empty. That no node is reached by TLS would be a
// mistake: the password would go over the network as it is.
func prove(all []shardlimit.Node, ca, cert, key string) error {
	if ca == "" && cert == "" && key == "" {
		return nil
	}
	var roots *x509.CertPool // nil: the system's
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return usagef("--tls-ca: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return usagef("--tls-ca: %s has no certificate in PEM", ca)
		}
	}
	var own []tls.Certificate
	if cert != "" || key != "" {
		pair, err := keyPair("tls-client-cert", cert, "tls-client-key", key)
		if err != nil {
			return err
		}
		own = []tls.Certificate{pair}
	}
	found := false
	for _, n := range all {
		for _, c := range []*tls.Config{n.Redis.TLSConfig, n.Redis.Sentinel.TLSConfig} {
			if c != nil {
				found, c.RootCAs, c.Certificates = true, roots, own
			}
		}
	}
	if !found {
		return usagef("--tls-ca and --tls-client-cert are for TLS; write rediss://host:port in place of host:port")
	}
	return nil
}

// keyPair reads the certificate and the key that two flags name.
func keyPair(certFlag, cert, keyFlag, key string) (pair tls.Certificate, err error) {
	if cert == "" || key == "" {
		return pair, usagef("--%s and --%s need each other", certFlag, keyFlag)
	}
	if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
		err = usagef("--%s: %w", certFlag, err)
	}
	return pair, err
}

func newClient(config shardlimit.Config) (*shardlimit.Client, error) {
	client, err := shardlimit.New(config)
	if errors.Is(err, shardlimit.ErrInvalidConfig) {
		return nil, usageError{err}
	}
	return client, err
}
