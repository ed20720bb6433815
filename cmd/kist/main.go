// Command kist is version control for folders: git's model over deduplicated,
// compressed and verified storage.
package main

import (
	"context"
	"os"
	"runtime"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands"
)

func main() { os.Exit(run()) }

// run runs the command of this process and returns its exit status.
func run() int {
	if os.Getenv("GOGC") == "" {
		tuneCollector()
	}
	if os.Getenv("KIST_PROFILE") == "" {
		runtime.MemProfileRate = 0 // a sample of the heap costs 5 µs and more, and only a profile shows it
	}
	ctx, stop := cli.WithSignals(context.Background())
	env := cli.OSEnv()
	env.Commands = commands.All
	status := cli.Run(ctx, env, os.Args[1:])
	stop()
	return status
}
