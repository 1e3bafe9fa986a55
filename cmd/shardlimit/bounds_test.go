package main

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Frames of HTTP/2, and what a server tells with SETTINGS.
const (
	frameSettings, frameGoAway           = 4, 7
	settingStreams, settingHeader uint16 = 3, 6
	preface                              = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// guarded is a server as serve makes it, with some bounds.
func guarded(t *testing.T, b grpcBounds) string {
	t.Helper()
	server := grpc.NewServer(guard{}.grpc(b)...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// frame reads on to a frame of that kind, and returns what it holds.
func frame(t *testing.T, from io.Reader, kind byte) []byte {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			t.Fatalf("no frame of kind %d: %v", kind, err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(from, body); err != nil {
			t.Fatal(err)
		}
		if head[3] == kind {
			return body
		}
	}
}

// greet begins a connection and returns it with what the server says of itself.
func greet(t *testing.T, address string) (net.Conn, map[uint16]uint32) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	empty := []byte{0, 0, 0, frameSettings, 0, 0, 0, 0, 0}
	if _, err := conn.Write(append([]byte(preface), empty...)); err != nil {
		t.Fatal(err)
	}
	said := map[uint16]uint32{}
	for body := frame(t, conn, frameSettings); len(body) >= 6; body = body[6:] {
		said[binary.BigEndian.Uint16(body)] = binary.BigEndian.Uint32(body[2:])
	}
	return conn, said
}

// A client learns how many calls it may have under way, and is sent away from an old connection.
func TestConnectionsOfEnvoyAreBounded(t *testing.T) {
	_, said := greet(t, guarded(t, usualBounds))
	if said[settingStreams] != usualBounds.streams || said[settingHeader] != usualBounds.header {
		t.Errorf("the server says %v", said)
	}
	short := usualBounds
	short.age = time.Millisecond
	conn, _ := greet(t, guarded(t, short))
	frame(t, conn, frameGoAway)
	if usualBounds.age <= 0 || usualBounds.ageOut <= 0 || usualBounds.ping <= 0 || usualBounds.silent <= 0 ||
		usualBounds.handshake <= 0 {
		t.Errorf("%+v", usualBounds)
	}
}

func TestLargeRequestsOfEnvoyAreRefused(t *testing.T) {
	conn, err := grpc.NewClient(guarded(t, usualBounds), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for size, want := range map[int]codes.Code{usualBounds.message - 100: codes.NotFound,
		usualBounds.message + 100: codes.ResourceExhausted} {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", size)})
		if status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
