package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	fresh = time.Second      // how long a customer is not looked up again, also in vain
	stale = 10 * time.Minute // how long one is believed while the database is down
	most  = 10_000           // customers that are remembered
)

// customer is who sent a request, and the limit of the plan.
type customer struct {
	id      string
	permits int64 // a minute
	changed int64 // when the plan, or which one it is, was changed last; UnixMicro
}

// seen is a customer as the database had it.
type seen struct {
	customer
	had time.Time // when that was
	at  time.Time // when it was looked up last, if in vain, too
}

// customers looks customers up in a database, and remembers them. The database has the SHA-256 of
// each key.
type customers struct {
	db *sql.DB

	mu    sync.Mutex
	known map[string]seen
}

// errUnknown: the database has no such key.
var errUnknown = errors.New("unknown key")

// of returns the customer who has a key. Only known ones are remembered.
func (all *customers) of(ctx context.Context, key string) (customer, error) {
	sum := sha256.Sum256([]byte(key))
	hash := hex.EncodeToString(sum[:])
	all.mu.Lock()
	before, known := all.known[hash]
	all.mu.Unlock()
	if known && time.Since(before.at) < fresh && time.Since(before.had) < stale {
		return before.customer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now := seen{at: time.Now(), had: time.Now()}
	all.trying(hash, before, known)
	err := all.db.QueryRowContext(ctx, `SELECT c.id, p.permits, max(c.changed, p.changed)
		FROM customers c JOIN plans p ON p.name = c.plan WHERE c.key = ?`, hash).
		Scan(&now.id, &now.permits, &now.changed)
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		delete(all.known, hash)
		return customer{}, errUnknown
	case err != nil && known && time.Since(before.had) < stale:
		slog.Warn("a customer goes on with the former plan", "customer", before.id, "err", err)
		return before.customer, nil
	case err != nil:
		return customer{}, err
	}
	if _, again := all.known[hash]; !again && len(all.known) >= most {
		clear(all.known) // who comes again is looked up again
	}
	all.known[hash] = now
	return now.customer, nil
}

// trying notes that a known customer is looked up: other requests use what is known meanwhile.
func (all *customers) trying(hash string, before seen, known bool) {
	if !known {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	before.at = time.Now()
	all.known[hash] = before
}

type customerKey struct{}

// customerOf returns who sent a request that has passed authenticated.
func customerOf(r *http.Request) customer {
	c, _ := r.Context().Value(customerKey{}).(customer)
	return c
}

// authenticated lets requests pass whose key is known.
func (all *customers) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := all.of(r.Context(), r.Header.Get("X-API-Key"))
		switch {
		case errors.Is(err, errUnknown):
			w.Header().Set("WWW-Authenticate", "ApiKey")
			http.Error(w, "this key is not known", http.StatusUnauthorized)
		case err != nil:
			slog.Error("no customer can be looked up", "err", err)
			http.Error(w, "customers cannot be looked up now", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, c)))
		}
	})
}
