package register

import (
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/record"
)

// Errors that callers of the public package see.
var (
	// ErrUnavailable: Redis could not be asked.
	ErrUnavailable = errors.New("shardlimit: no shard answered")
	// ErrNotFound: no limit of that name is stored.
	ErrNotFound = errors.New("shardlimit: no such limit")
	// ErrClosed: the process needs its nodes no more.
	ErrClosed = errors.New("shardlimit: client is closed")
	// ErrDeleted: this process has deleted the limit, and nobody has declared it since.
	ErrDeleted = fmt.Errorf("%w: it was deleted", ErrNotFound)
	// ErrUnreadable: what is stored is not what this version could have stored.
	ErrUnreadable = record.ErrUnreadable
)

var (
	errNoRecord  = errors.New("the record of the limit cannot be read")
	errBehind    = errors.New("the layout of a key does not follow from what the record of its family was seen to hold")
	errOvertaken = errors.New("shards obey a later layout than the record has; a process that knows it is waited for")
)

// Unavailable is ErrUnavailable with what is behind it, if that is known.
func Unavailable(cause error) error {
	if cause == nil {
		return ErrUnavailable
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}
