package redistest

import (
	"net"
	"testing"
)

// Another process leaves a port alone until it is given back.
func TestAPortIsReservedForAllProcesses(t *testing.T) {
	port, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	if claim, err := net.ListenPacket("udp", address(port)); err == nil {
		_ = claim.Close()
		t.Errorf("another process could reserve port %d", port)
	}
	releasePort(port)
	claim, err := net.ListenPacket("udp", address(port))
	if err != nil {
		t.Fatalf("port %d was given back: %v", port, err)
	}
	_ = claim.Close()
}
