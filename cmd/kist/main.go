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
	status := cli.Run(ctx, cli.OSEnv(), os.Args[1:])
	stop()
	return status
}
