package server

import (
	"os"
	"os/exec"
	"testing"
)

func TestChild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	done, err := Child(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if cmd.ProcessState == nil || !cmd.ProcessState.Success() {
		t.Errorf("ended with %v, want success", cmd.ProcessState)
	}
	done, err = Child(exec.Command(self + "-that-does-not-exist"))
	if err == nil {
		t.Error("a program that does not exist was started")
	}
	<-done
}
