//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// replaceBy runs the program in place of this process. It returns only if that cannot be done.
func replaceBy(program string, args []string, _ console) error {
	return fmt.Errorf("%s cannot be run: %w; its permits are spent", program, syscall.Exec(program, args, os.Environ()))
}
