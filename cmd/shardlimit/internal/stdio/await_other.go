//go:build !unix

package stdio

import (
	"context"
	"errors"
	"os"
)

const readable, writable = 0, 0

// await fails: this system cannot tell whether a call would block.
func await(context.Context, *os.File, int16) error { return errors.ErrUnsupported }
