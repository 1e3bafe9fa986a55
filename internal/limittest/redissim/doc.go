// Package redissim is a Redis server for simulations: fast, in one process, with a clock that its
// user holds.
//
// A [Server] keeps strings, hashes and sorted sets, and runs the Lua of this module's scripts as it
// is, without compiling a text twice. It knows the commands that the scripts use, and no others. A
// [Link] is a rueidis.Client on the way to a server: it delays commands and replies, loses them,
// and holds them up, in the time of the test bubble it is used in. Nothing goes through a socket,
// so that a hundred thousand histories of a limit can be played.
package redissim
