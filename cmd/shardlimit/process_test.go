package main

import (
	"context"
	"testing"

	"github.com/urfave/cli/v3"
)

func TestAProcessSaysWhoItIs(t *testing.T) {
	var p process
	cmd := &cli.Command{Flags: processFlags(), Action: func(_ context.Context, cmd *cli.Command) (err error) {
		p, err = readProcess(cmd)
		return err
	}}
	if err := cmd.Run(t.Context(),
		[]string{"x", "--embedded", "--participant", "ann", "--weight", "2.5", "--prefix", "p:"}); err != nil {
		t.Fatal(err)
	}
	if c := p.config; c.Participant != "ann" || c.Weight != 2.5 || c.KeyPrefix != "p:" || !p.embedded {
		t.Errorf("%+v", p)
	}
	client, closeAll, err := p.start()
	if err != nil || client == nil {
		t.Fatal(err)
	}
	closeAll()
	if p.config.Nodes != nil {
		t.Errorf("nodes that are closed by now: %+v", p.config.Nodes)
	}
}
