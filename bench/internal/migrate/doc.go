// Package migrate has what the pages of docs/migrate show: small programs with other rate limiters,
// and the same with shardlimit. Tests run both beside each other.
package migrate
