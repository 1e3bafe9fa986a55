//go:build !unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
)

// replaceBy runs the program and waits for it.
func replaceBy(program string, args []string, con console) error {
	cmd := exec.Command(program)
	cmd.Args, cmd.Stdin, cmd.Stdout, cmd.Stderr = args, con.in, con.out, con.err
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.Join(errTold, exitError(exit.ExitCode()))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be run: %w; its permits are spent", program, err)
	}
	return nil
}
