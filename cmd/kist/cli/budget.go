package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// fetchesFreely has the commands that are about content: they fetch as much as they need. All others ask first.
var fetchesFreely = map[string]bool{
	"archive": true, "backup": true, "cat": true, "checkout": true, "cherry-pick": true, "evict": true, "export": true, "fetch": true,
	"gc": true, "merge": true, "mount": true, "pull": true, "push": true, "rebase": true, "reset": true, "restore": true, "revert": true,
	"stash": true, "switch": true, "verify": true,
}

// defaultAsk is the number of bytes that a command fetches before it asks.
const defaultAsk = 100 << 20

// limitFetches bounds the content that a command fetches, by the key local.ask, unless it is about content.
func limitFetches(e *Env, cmd *cobra.Command, r *kist.Repository) error {
	path := strings.Fields(cmd.CommandPath())
	if len(path) > 1 && fetchesFreely[path[1]] {
		return nil
	}
	limit := int64(defaultAsk)
	if text, ok := r.Config().Get(kist.KeyLocalAsk); ok {
		size, err := kist.ParseSize(text)
		if err != nil {
			return err
		}
		limit = int64(size)
	}
	var ask func(limit int64) bool
	if e.Terminal.Stdin {
		ask = func(limit int64) bool {
			return Confirm(e, fmt.Sprintf("this needs more than %s of content that is only on a remote; fetch all of it?", readable.FormatSize(uint64(limit))))
		}
	}
	registry.LimitFetches(r, limit, ask)
	return nil
}
