package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

// Why nobody tells which keys are refused.
var (
	errNoServe = errors.New("nobody answers; give --serve http://HOST:PORT")
	errToken   = errors.New("it asks for another token; give --token-file, or SHARDLIMIT_TOKEN")
	errNotTold = errors.New("it tells nothing of keys; start serve with --denied")
)

// topKeys shows the keys that a process refuses most. If it cannot tell at first, that is an error.
func topKeys(ctx context.Context, cmd *cli.Command, con console) error {
	t, err := newTeller(cmd)
	if err != nil {
		return err
	}
	interrupts := listen(ctx)
	defer interrupts.close()
	if err := t.ask(interrupts.first).err; err != nil && interrupts.first.Err() == nil {
		return saidError{err}
	}
	return watch(interrupts.first, cmd, con, func() seen { return t.ask(interrupts.first) })
}

// teller is a process that tells which keys it refused.
type teller struct {
	where, token string
	limiter      string // "": all
	http         http.Client
}

func newTeller(cmd *cli.Command) (*teller, error) {
	at, err := url.Parse(cmd.String("serve"))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, usagef("--serve is %q; it must be http://HOST:PORT or https://HOST:PORT", cmd.String("serve"))
	}
	p, err := readProofs(cmd.String("tls-ca"), cmd.String("tls-client-cert"), cmd.String("tls-client-key"))
	if err != nil {
		return nil, err
	}
	text := []byte(os.Getenv("SHARDLIMIT_TOKEN"))
	if file := cmd.String("token-file"); file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return nil, usagef("--token-file: %w", err)
		}
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return &teller{where: at.JoinPath("v1/denied").String(), token: strings.TrimSpace(token),
		limiter: cmd.Args().First(), http: http.Client{Timeout: adminTimeout, Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.roots, Certificates: p.own}}}}, nil
}

// refusedKeys are the keys that were refused most, as httplimit.RefusedKeys tells them.
type refusedKeys struct {
	Since    time.Time   `json:"since"`
	Limiters []refusedOf `json:"limiters"`
	where    string
	err      error
}

type refusedOf struct {
	Limiter string `json:"limiter"`
	Calls   int64  `json:"calls"`
	Keys    []struct {
		Key   string `json:"key"`
		Calls int64  `json:"calls"`
		Over  int64  `json:"over"`
	} `json:"keys"`
}

// ask returns what the process tells now. An error is part of that, in err.
func (t *teller) ask(ctx context.Context) *refusedKeys {
	k := &refusedKeys{where: t.where}
	if err := t.fill(ctx, k); err != nil {
		k.err = fmt.Errorf("%s: %w", t.where, err)
	}
	return k
}

func (t *teller) fill(ctx context.Context, k *refusedKeys) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.where, nil)
	if err != nil {
		return err
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	answer, err := t.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoServe, errors.Unwrap(err))
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return errToken
	case http.StatusNotFound:
		return errNotTold
	default:
		return errors.New(answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(k); err != nil {
		return fmt.Errorf("%w: %w", errNotTold, err)
	}
	k.Limiters = slices.DeleteFunc(k.Limiters, func(l refusedOf) bool {
		return t.limiter != "" && l.Limiter != t.limiter
	})
	return nil
}

func (k *refusedKeys) text(int) string {
	if k.err != nil {
		return plainText(k.err) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "refused most since %s, as %s tells\n\n", k.Since.UTC().Format("15:04:05 UTC"), k.where)
	width := len("limit")
	for _, l := range k.Limiters {
		width = max(width, utf8.RuneCountInString(draw.Name(l.Limiter)))
	}
	fmt.Fprintf(&b, "%-*s  %10s  %10s  key\n", width, "limit", "at least", "at most")
	for _, l := range k.Limiters {
		for _, key := range l.Keys {
			fmt.Fprintf(&b, "%-*s  %10s  %10s  %s\n", width, draw.Name(l.Limiter), draw.Count(key.Calls-key.Over),
				draw.Count(key.Calls), draw.Name(key.Key))
		}
	}
	return b.String()
}

func (k *refusedKeys) json() any {
	if k.err != nil {
		return missedJSON{k.where, plainText(k.err)}
	}
	return k
}
