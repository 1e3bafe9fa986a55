package main

import (
	"fmt"
	"os"

	"github.com/shardlimit/shardlimit/internal/history"
)

// auditLog is a file with a line for every batch that was released: when its
// permits were asked for, when it had been written (both in nanoseconds of the
// machine's monotonic clock), and how many lines it had. The files of several
// processes of one machine can be concatenated.
type auditLog struct{ file *os.File }

// openAudit appends to path, so that a run that goes on keeps what was there.
func openAudit(path string) (*auditLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--audit: %w", err)
	}
	return &auditLog{f}, nil
}

// released adds a line.
func (a *auditLog) released(start, end, lines int64) error {
	return history.Write(a.file, []history.Op{{Start: start, End: end, Permits: lines}})
}
