// Command testgate reads the output of go test -json on standard input, prints
// what a person wants to see of it, and fails if a test failed or was skipped:
// in CI a skipped test is a test that nobody ran.
//
//	go test -json ./... | testgate
//
// Packages without tests are fine. The exit code is 1 if anything failed or was
// skipped, or if no test ran at all, and 2 if the input is not a test stream.
package main

import (
	"fmt"
	"os"
)

func main() {
	g := newGate(os.Stdout)
	if err := g.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testgate:", err)
		os.Exit(2)
	}
	if !g.close() {
		os.Exit(1)
	}
}
