// Command kist is version control for folders: git's model over deduplicated,
// compressed and verified storage.
package main

import (
	"context"
	"os"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

func main() { os.Exit(run()) }

// run runs the command of this process and returns its exit status.
func run() int {
	if os.Getenv("GOGC") == "" {
		tuneCollector()
	}
	ctx, stop := cli.WithSignals(context.Background())
	env := cli.OSEnv()
	env.Commands = cli.All
	status := cli.Run(ctx, env, os.Args[1:])
	stop()
	return status
}
