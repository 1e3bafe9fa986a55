// Package redistest starts real redis-server processes for tests: standalone
// servers, clusters with replicas, Sentinel sets, and a TCP proxy that injects
// faults.
//
// Everything is bound to 127.0.0.1, keeps its files in the test's own
// temporary directory and is gone when the test ends: the cleanup kills, by
// process id, only what it started. On Linux the kernel also kills the
// processes when the test binary itself dies, whatever it dies of.
//
// The program is redis-server on the PATH, or what SHARDLIMIT_REDIS_SERVER names, such as the path
// of a valkey-server. Without it the calling test is skipped, or fails if SHARDLIMIT_REQUIRE_REDIS
// is 1.
//
// Constructors must be called from the test's goroutine. The methods of what
// they return may be called from any goroutine until the test ends; they
// report trouble with Errorf, so a failing one marks the test and goes on.
package redistest
