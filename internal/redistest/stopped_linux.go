package redistest

import (
	"bytes"
	"fmt"
	"os"
)

// stopped reports whether no thread of the process runs any more: SIGSTOP is
// delivered to one thread after the other.
func (p *process) stopped() bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
	if err != nil {
		return true // ended
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", p.pid(), task.Name()))
		if err != nil {
			continue
		}
		// pid (comm) state ...; comm may itself hold blanks and brackets.
		rest := stat[bytes.LastIndexByte(stat, ')')+1:]
		if len(rest) < 2 || !bytes.ContainsRune([]byte("TtZX"), rune(rest[1])) {
			return false
		}
	}
	return true
}
