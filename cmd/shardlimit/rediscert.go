package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/shardlimit/shardlimit"
)

// tlsFlags say how the servers of rediss:// URLs and this program prove who they are.
func tlsFlags() []cli.Flag {
	return []cli.Flag{
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
	all, err := nodes(cmd.String("redis"), cmd.String("cluster"), cmd.String("sentinel"))
	if err != nil {
		return nil, err
	}
	proofs, err := readProofs(cmd.String("tls-ca"), cmd.String("tls-client-cert"), cmd.String("tls-client-key"))
	if err != nil {
		return nil, err
	}
	return all, proofs.apply(all)
}

// proofs are what servers must show, and what is shown to them.
type proofs struct {
	roots *x509.CertPool    // nil: the system's
	own   []tls.Certificate // none, or one
}

func readProofs(ca, cert, key string) (p proofs, err error) {
	if ca != "" {
		if p.roots, err = readRoots(ca); err != nil {
			return p, err
		}
	}
	switch {
	case cert == "" && key == "":
		return p, nil
	case cert == "" || key == "":
		return p, usagef("--tls-client-cert and --tls-client-key need each other")
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return p, usagef("--tls-client-cert: %w", err)
	}
	p.own = []tls.Certificate{own}
	return p, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--tls-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, usagef("--tls-ca: %s has no certificate in PEM", file)
	}
	return roots, nil
}

// apply sets the proofs of the nodes that are reached by TLS. That none is would be a mistake: the
// password would go over the network as it is.
func (p proofs) apply(all []shardlimit.Node) error {
	if p.roots == nil && p.own == nil {
		return nil
	}
	found := false
	for _, n := range all {
		for _, c := range []*tls.Config{n.Redis.TLSConfig, n.Redis.Sentinel.TLSConfig} {
			if c != nil {
				found, c.RootCAs, c.Certificates = true, p.roots, p.own
			}
		}
	}
	if !found {
		return usagef("--tls-ca and --tls-client-cert are for TLS; write rediss://host:port in place of host:port")
	}
	return nil
}
