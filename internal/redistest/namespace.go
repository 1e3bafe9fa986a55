package redistest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// namespace is a network of its own, joined to the machine's by a pair of interfaces.
type namespace struct {
	name, inside, host, outer string
}

// InNamespace starts one server in a network namespace of its own, whose packets DropPackets drops.
// Unlike a proxy that stalls, that leaves no kernel that answers for it: no connection is accepted,
// none is refused, none ends. It needs root, and the programs ip and iptables.
func InNamespace(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	c := newConfig(append(opts, Args("--protected-mode", "no")))
	id := rand.IntN(1 << 14)
	net := fmt.Sprintf("10.%d.%d.", 200+id>>8&31, id&255)
	n := &namespace{name: fmt.Sprintf("redistest%d", id), inside: fmt.Sprintf("rti%d", id), host: net + "2",
		outer: fmt.Sprintf("rto%d", id)}
	tb.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() })
	for _, line := range []string{
		"ip netns add " + n.name,
		"ip link add " + n.outer + " type veth peer name " + n.inside + " netns " + n.name,
		"ip addr add " + net + "1/30 dev " + n.outer,
		"ip link set " + n.outer + " up",
		"ip -n " + n.name + " addr add " + n.host + "/30 dev " + n.inside,
		"ip -n " + n.name + " link set " + n.inside + " up",
		"ip -n " + n.name + " link set lo up",
	} {
		if err := run(line); err != nil {
			tb.Fatal(err)
		}
	}
	c.namespace = n
	return start(tb, 1, c.after())[0]
}

// DropPackets has every packet to the server dropped, or no more. It must be one of InNamespace.
func (s *Server) DropPackets(drop bool) {
	s.tb.Helper()
	how := "-D"
	if drop {
		how = "-I"
	}
	n := s.namespace
	err := run("ip netns exec " + n.name + " iptables " + how + " INPUT -i " + n.inside + " -j DROP")
	if err != nil {
		s.tb.Errorf("redistest: %v", err)
	}
}

func run(line string) error {
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("redistest: %s: %w: %s", line, err, out)
	}
	return nil
}

// command is the program that starts the server, and what stands before its own arguments.
func (s *Server) command() (program string, before []string) {
	if s.namespace == nil {
		return s.path, nil
	}
	return "ip", []string{"netns", "exec", s.namespace.name, s.path}
}

// host is the address that the server listens on.
func (s *Server) host() string {
	if s.namespace == nil {
		return "127.0.0.1"
	}
	return s.namespace.host
}

// CanUseNamespaces reports whether InNamespace works here.
func CanUseNamespaces() bool {
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return os.Geteuid() == 0
}
