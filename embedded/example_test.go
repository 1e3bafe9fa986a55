package embedded_test

import (
	"fmt"
	"net"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

func Example() {
	servers, err := embedded.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer servers.Close()

	cfg := shardlimit.Config{Nodes: servers.Nodes()} // for shardlimit.New
	fmt.Println(len(cfg.Nodes), "nodes, the first is", cfg.Nodes[0].Name)
	// Output: 3 nodes, the first is embedded-0
}

func ExampleServers_Stop() {
	servers, err := embedded.Start(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer servers.Close()

	reach := func() {
		conn, err := net.Dial("tcp", servers.Addr(1))
		if err == nil {
			_ = conn.Close()
		}
		fmt.Println("reachable:", err == nil)
	}
	_ = servers.Stop(1)
	reach()
	_ = servers.Resume(1) // Lose would bring it back empty
	reach()
	// Output:
	// reachable: false
	// reachable: true
}
