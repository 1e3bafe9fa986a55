// Command shardlimit shows, changes and uses rate limits that are split over
// many Redis nodes. See shardlimit --help, and the package documentation of
// github.com/shardlimit/shardlimit for what a limit promises.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args, console{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// console is what a command reads from and writes to.
type console struct {
	in, out, err *os.File
}
