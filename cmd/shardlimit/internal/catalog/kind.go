package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

// lookWithin bounds the look whether a name is taken: a node that is away must not hold up calls.
const lookWithin = 500 * time.Millisecond

// Taken tells that a name is that of a family where a limit is meant, or the other way round.
type Taken struct {
	Name   string
	Family bool // what is stored is a family
}

// Error says what is stored.
func (t *Taken) Error() string {
	if t.Family {
		return fmt.Sprintf("%q is a family", t.Name)
	}
	return fmt.Sprintf("%q is a limit", t.Name)
}

// CheckKind refuses, with *Taken, to use a name for a limit where a family has it, or for a family
// where a limit has it: the two would count apart without anybody noticing. What cannot be learned
// in half a second is no reason to refuse.
func CheckKind(ctx context.Context, client *shardlimit.Client, name string, family bool) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	var err error
	if family {
		_, err = client.Open(ctx, name)
	} else {
		_, err = client.OpenFamily(ctx, name)
	}
	if err == nil {
		return &Taken{Name: name, Family: !family}
	}
	return nil
}
