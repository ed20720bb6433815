package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
)

// partial returns the error of a command that did its work except for some paths: it
// names them, and has exit status 3. It is nil if there are none.
func (e *Env) partial(r *kist.Repository, skipped []object.Skipped) error {
	return e.partialOf(r, skipped, uint64(len(skipped)))
}

// partialOf is partial if only the first of all paths are at hand.
func (e *Env) partialOf(r *kist.Repository, skipped []object.Skipped, all uint64) error {
	if all == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s skipped", plural(all, "path was", "paths were"))
	for i, s := range skipped {
		if i == detailLines {
			break
		}
		fmt.Fprintf(&text, "\n%s", e.shownSkipped(r, s))
	}
	if more := all - uint64(min(len(skipped), detailLines)); more > 0 {
		fmt.Fprintf(&text, "\nand %s more", formatCount(more))
	}
	return failf(exitPartial, "", "%s", text.String())
}

func (e *Env) shownSkipped(r *kist.Repository, s object.Skipped) string {
	return e.shown(r, s.Path) + ": " + printable(s.Reason)
}

// bareError returns the reason of an error without its path, which the caller
// prints.
func bareError(err error) string {
	var purged *kist.PurgedError
	if errors.As(err, &purged) {
		return purged.Error()
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
