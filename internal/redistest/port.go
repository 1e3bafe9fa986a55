package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range the kernel gives to outgoing connections
// (32768 and up on Linux, 49152 and up elsewhere). A server that is killed and
// restarted could otherwise find its port taken by some client's own end, and
// a client that dials a dead port of that range can even connect to itself.
const (
	firstPort = 11000
	portCount = 10000
	busOffset = 10000 // Redis: cluster bus port = port + 10000
)

// ports are the ports this process has handed out and not taken back. A port
// stays reserved while its server is down, for Restart. Tests of other packages
// run in other processes at the same time: to them it is taken because this one
// has the UDP port of that number, which no server uses.
var ports = struct {
	sync.Mutex
	taken map[int]net.PacketConn
}{taken: map[int]net.PacketConn{}}

// reservePort returns a port which, with its cluster bus port, nobody listened
// on a moment ago. Another process may still be quicker: the caller retries.
func reservePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(portCount)
		claim, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		if !free(port) || !free(port+busOffset) {
			_ = claim.Close()
			continue
		}
		ports.taken[port] = claim
		return port, nil
	}
	return 0, fmt.Errorf("redistest: no free port in %d..%d", firstPort, firstPort+portCount-1)
}

func releasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	if claim := ports.taken[port]; claim != nil {
		_ = claim.Close()
		delete(ports.taken, port)
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
