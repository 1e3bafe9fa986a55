// Package examples has the programs that README.md and docs show or name, one folder each. Tests
// hold the pages to them, and run them. They read the addresses of their nodes from the variable
// REDIS.
package examples
