package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Certificates are the PEM files of an authority made for one test, and of a pair that it vouches
// for: of a server on 127.0.0.1, and of a client.
type Certificates struct {
	CA, Cert, Key string
}

// NewCertificates writes certificates that end with the test.
func NewCertificates(tb testing.TB) Certificates {
	tb.Helper()
	dir := tb.TempDir()
	c := Certificates{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	authorityKey, leafKey := newKey(tb), newKey(tb)
	signCertificate(tb, c.CA, authority, authority, authorityKey, authorityKey)
	signCertificate(tb, c.Cert, leaf, authority, leafKey, authorityKey)
	text, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		tb.Fatal(err)
	}
	writePEM(tb, c.Key, "PRIVATE KEY", text)
	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func signCertificate(tb testing.TB, file string, of, by *x509.Certificate, key, signer *ecdsa.PrivateKey) {
	tb.Helper()
	text, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, signer)
	if err != nil {
		tb.Fatal(err)
	}
	writePEM(tb, file, "CERTIFICATE", text)
}

func writePEM(tb testing.TB, file, kind string, content []byte) {
	tb.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// TLS has a server, or the nodes of a cluster, talk TLS alone, and want a certificate of whoever
// comes. Configurations of clients that this package makes have one.
func TLS(tb testing.TB, c Certificates) Option {
	tb.Helper()
	own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		tb.Fatal(err)
	}
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		tb.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	client := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, RootCAs: trusted}
	return func(o *config) {
		o.tls = client
		o.args = append(o.args, "--tls-cert-file", c.Cert, "--tls-key-file", c.Key, "--tls-ca-cert-file", c.CA,
			"--tls-cluster", "yes", "--tls-replication", "yes")
	}
}

// HasTLS reports whether the program of the servers was built with TLS.
func HasTLS(tb testing.TB) bool {
	tb.Helper()
	// One that was says that it lacks a certificate, and others that they lack TLS. Both end.
	text, err := exec.Command(serverProgram(tb), "--port", "0", "--tls-port", "1").CombinedOutput()
	return err != nil && strings.Contains(string(text), "tls-cert-file")
}
