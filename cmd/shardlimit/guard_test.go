package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// file writes a file for the test.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	limittest.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// With a certificate and a token in a file of settings, only those who know both are answered.
func TestServeIsGuarded(t *testing.T) {
	t.Parallel()
	c := redistest.NewCertificates(t)
	settings := file(t, "serve.yaml", "embedded: true\non-outage: open\ntls-cert: "+c.Cert+"\ntls-key: "+c.Key+
		"\ntoken-file: "+file(t, "tokens", "0123456789abcdef\n")+"\ngrpc: 127.0.0.1:0\nconfig: "+
		file(t, "envoy.yaml", "domain: d\n")+"\nlimits: [{name: mails, rate: 5/h}]\n")
	_, says := launchServe(t, "--settings", settings)
	envoy, url := says.address("Envoy on "), says.address("serving HTTP on ")
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, c.CA)))
	knowing := &tls.Config{RootCAs: roots}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: knowing, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	if answer, err := http.Get(url + "/healthz"); err == nil {
		_ = answer.Body.Close()
		t.Error("a certificate that nobody vouches for is believed")
	}
	for _, step := range []struct {
		path, token string
		code        int
	}{{"/readyz", "", 200}, {"/metrics", "", 401}, {"/metrics", "0123456789abcdef", 200},
		{"/metrics", "fedcba9876543210", 401}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+step.path, nil)
		limittest.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+step.token)
		answer, err := client.Do(r)
		limittest.Must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != step.code || answer.ProtoMajor != 2 {
			t.Errorf("%+v: %d by %s", step, answer.StatusCode, answer.Proto)
		}
	}
	envoyIsGuarded(t, envoy, knowing)
}

// Who opens a port to others without a token is told, of Envoy's service as of HTTP.
func TestServeTellsThatAnybodyMayUseIt(t *testing.T) {
	t.Parallel()
	rules := file(t, "envoy.yaml", "domain: d\n")
	_, says := launchServe(t, "--embedded", "--grpc", "0.0.0.0:0", "--config", rules)
	envoy := says.address("Envoy on ")
	if line := says.until("shardlimit: "); !strings.Contains(line, "whoever reaches "+envoy+" may use the limits") {
		t.Error(line)
	}
	_, says = launchServe(t, "--embedded", "--grpc", "0.0.0.0:0", "--config", rules, "--token-file",
		file(t, "tokens", "0123456789abcdef\n"))
	says.until("Envoy on ")
	if line := says.until("shardlimit: "); !strings.Contains(line, "serving HTTP on ") {
		t.Error(line)
	}
}

func envoyIsGuarded(t *testing.T, address string, knowing *tls.Config) {
	t.Helper()
	conn := dialled(t, address, credentials.NewTLS(knowing))
	ask := func(ctx context.Context) codes.Code {
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "d"})
		return status.Code(err)
	}
	if code := ask(t.Context()); code != codes.Unauthenticated {
		t.Errorf("without a token: %v", code)
	}
	bearing := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef")
	if code := ask(bearing); code == codes.Unauthenticated || code == codes.Unavailable {
		t.Errorf("with a token: %v", code)
	}
	health := grpc_health_v1.NewHealthClient(conn)
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

// A certificate that was renewed is shown without a restart, and one that cannot be read is not.
func TestACertificateIsReadAgain(t *testing.T) {
	old, renewed := redistest.NewCertificates(t), redistest.NewCertificates(t)
	config := guard{cert: old.Cert, key: old.Key}.tls()
	serial := func() string {
		t.Helper()
		c, err := config.GetCertificate(nil)
		limittest.Must(t, err)
		return string(c.Certificate[0])
	}
	first := serial()
	limittest.Must(t, os.WriteFile(old.Cert, []byte("half a certificate"), 0o600))
	if serial() != first {
		t.Error("what cannot be read is shown")
	}
	limittest.Must(t, os.WriteFile(old.Key, []byte(read(t, renewed.Key)), 0o600))
	limittest.Must(t, os.WriteFile(old.Cert, []byte(read(t, renewed.Cert)), 0o600))
	if serial() == first {
		t.Error("the former one is still shown")
	}
}

// While no node answers it is not ready, and says why.
func TestServeTellsOfAnOutage(t *testing.T) {
	t.Parallel()
	_, says := launchServe(t, "--redis", "n=127.0.0.1:1", "--limit", "a=5/h")
	url := says.address("serving HTTP on ")
	for range 3 {
		if code, text := post(t, url, `{"limiter": "a"}`); code != 503 || strings.Contains(text, "127.0.0.1") ||
			!strings.Contains(text, `"detail":"shardlimit: no shard answered","code":"unavailable"`) {
			t.Errorf("%d %s", code, text)
		}
	}
	if code, text := fetch(t, url+"/readyz"); code != 503 || !strings.Contains(text, `"detail":"no node answers"`) {
		t.Errorf("/readyz: %d %q", code, text)
	}
	if code, _ := fetch(t, url+"/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	if line := says.until("level=WARN"); !strings.Contains(line, "refused") {
		t.Error(line)
	}
	// Where the policy answers, so does it.
	_, says = launchServe(t, "--redis", "n=127.0.0.1:1", "--limit", "a=5/h", "--on-outage", "open")
	if code, text := fetch(t, says.address("serving HTTP on ")+"/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("/readyz: %d %q", code, text)
	}
}

// A password that holds no longer is no outage: no policy answers, it is not ready, and the log
// says so once.
func TestServeTellsOfAMistake(t *testing.T) {
	t.Parallel()
	server := redistest.Servers(t, 1)[0]
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
	_, says := launchServe(t, "--redis", "redis://ann:pw@"+server.Addr(), "--limit", "a=5/h", "--on-outage", "open")
	url := says.address("serving HTTP on ")
	if code, text := post(t, url, `{"limiter": "a"}`); code != 200 {
		t.Fatal(code, text)
	}
	server.Do(t, "ACL", "DELUSER", "ann")
	limittest.AwaitThat(t, "it has dialled anew", func() bool {
		code, _ := post(t, url, `{"limiter": "a"}`)
		return code == 503
	})
	if code, text := fetch(t, url+"/readyz"); code != 503 || !strings.Contains(text, "a mistake in the configuration") {
		t.Fatalf("/readyz: %d %s", code, text)
	}
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
	limittest.AwaitThat(t, "it is ready", func() bool {
		code, _ := fetch(t, url+"/readyz")
		return code == 200
	})
	told := 0
	for says.in.Scan() && !strings.Contains(says.in.Text(), "not ready: no node answers") {
		if strings.Contains(says.in.Text(), "WRONGPASS") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it is told %d times", told)
	}
}

// Who wanted a token and has none does not serve everybody.
func TestAnEmptyTokenIsRefused(t *testing.T) {
	t.Setenv("SHARDLIMIT_TOKEN", "")
	walk(t, nil, []step{{"serve --embedded --limit a=1/s --listen 127.0.0.1:1x", exitUsage,
		[]string{"SHARDLIMIT_TOKEN: it has no token"}}})
}
