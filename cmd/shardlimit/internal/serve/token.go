package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// minToken is how many bytes a token must have, so that it is not guessed.
const minToken = 16

// Tokens are secrets of which a request must bear one. Several let one be replaced while requests
// bear the other.
type Tokens [][sha256.Size]byte

// ParseTokens reads a file of tokens, one a line; what begins with # is a comment. The error is
// one line, and shows none.
func ParseTokens(content []byte) (Tokens, error) {
	var all Tokens
	for i, line := range bytes.Split(content, []byte("\n")) {
		token := bytes.TrimSpace(line)
		if len(token) == 0 || token[0] == '#' {
			continue
		}
		if len(token) < minToken {
			return nil, fmt.Errorf("line %d: the token has %d bytes, it needs %d, such as openssl rand -hex 16 makes",
				i+1, len(token), minToken)
		}
		all = append(all, sha256.Sum256(token))
	}
	if len(all) == 0 {
		return nil, errors.New("it has no token")
	}
	return all, nil
}

// Allow reports whether the value of an Authorization header bears one of the tokens, or none is
// asked for. How long it takes tells nothing of them.
func (t Tokens) Allow(authorization string) bool {
	if len(t) == 0 {
		return true
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	borne := sha256.Sum256([]byte(strings.TrimSpace(token)))
	known := 0
	for i := range t {
		known |= subtle.ConstantTimeCompare(t[i][:], borne[:])
	}
	return known == 1 && strings.EqualFold(scheme, "Bearer")
}

var errNoToken = errors.New("the request does not bear a token that is valid here: Authorization: Bearer TOKEN")

// guard lets requests pass that bear a token.
func (t Tokens) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Allow(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, errNoToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}
