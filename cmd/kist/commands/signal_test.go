package commands_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// hangMain prints a line when it is interrupted, and then hangs.
func hangMain() {
	ctx, _ := cli.WithSignals(context.Background())
	fmt.Println("begun")
	<-ctx.Done()
	fmt.Println("cancelled")
	select {}
}

func TestSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := &exec.Cmd{Path: self, Args: []string{"kist-that-hangs"}}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}

		lines := bufio.NewScanner(stdout)
		for _, want := range []string{"begun", "cancelled"} {
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("%v: the program printed %q, want %q", signal, lines.Text(), want)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
		}

		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("%v twice: %v, want exit status 130", signal, err)
		}
	}
}
