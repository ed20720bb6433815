package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// fetchesFreely has the commands that are about content: they fetch as much as they need. All others ask first.
var fetchesFreely = map[string]bool{
	"archive": true, "backup": true, "cat": true, "checkout": true, "cherry-pick": true, "evict": true, "export": true, "fetch": true,
	"gc": true, "merge": true, "mount": true, "pull": true, "push": true, "rebase": true, "reset": true, "restore": true, "revert": true,
	"serve": true, "stash": true, "switch": true, "verify": true,
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
	var ask func(need *object.BudgetError) bool
	if e.Terminal.Stdin {
		ask = func(need *object.BudgetError) bool { return Confirm(e, budgetText(need)+"; fetch all of it?") }
	}
	registry.LimitFetches(r, limit, ask)
	return nil
}

// budgetText words a BudgetError.
func budgetText(e *object.BudgetError) string {
	amount := "more than " + readable.FormatSize(uint64(e.Limit))
	if e.Bytes > 0 {
		amount = readable.FormatSize(uint64(e.Bytes))
	}
	return fmt.Sprintf("this needs %s of content that is only on a remote", amount)
}

// budgetHint names the command that brings the content of a BudgetError.
func budgetHint(err error) string {
	var need *object.BudgetError
	if !errors.As(err, &need) {
		return ""
	}
	args := " PATH"
	if len(need.Places) > 0 {
		args = ""
	}
	for _, place := range need.Places {
		args += " " + place.Commit.Short() + ":" + QuotePath(place.Path)
	}
	limit := "SIZE"
	if need.Bytes > 0 {
		limit = fmt.Sprintf("%dMiB", need.Bytes>>20+1)
	}
	return fmt.Sprintf("'kist fetch --data%s' brings it; 'kist config local.ask %s' lets commands fetch as much without a question", args, limit)
}
