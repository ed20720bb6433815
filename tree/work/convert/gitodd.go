package convert

import (
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// gitOdd collects everything that kist cannot have as it is in git.
type gitOdd struct {
	object   string            // the commit or tag that is being read
	skipped  map[string]string // paths that are left out, and the reasons
	changed  []object.Skipped
	noCommit map[string]bool // full names of refs to something else

	signatures int // left out
}

// noteChange notes that the current commit or tag is not stored as it is.
func (o *gitOdd) noteChange(format string, args ...any) {
	o.changed = append(o.changed, object.Skipped{Path: o.object, Reason: fmt.Sprintf(format, args...)})
}

// maxQuoted bounds a text in the reason of a change, in bytes.
const maxQuoted = 100

// readableStamp returns a stamp in UTF-8.
func (o *gitOdd) readableStamp(who, text string, decode func(string) string) object.Stamp {
	s, repaired := gitStamp(text, decode)
	if repaired {
		o.noteChange("its %s %q is odd, and was repaired", who, object.CutText(text, maxQuoted))
	}
	return s
}

// hasRef reports whether the stream has a branch or tag.
func (g *gitReader) hasRef(name string) bool {
	short, isTag := strings.CutPrefix(name, refs.Tags)
	_, annotated := g.tags[short]
	_, found := g.tips[name]
	return found || isTag && annotated
}

func (g *gitReader) leaveOut(found *GitImport, name, reason string) {
	found.LeftOut = append(found.LeftOut, object.Skipped{Path: name, Reason: reason})
}

// isNoCommit reports whether a mark or an ID of git is that of something else. For an object that
// is not in the stream, git writes zeros.
func (g *gitReader) isNoCommit(from string) bool {
	_, isBlob := g.blobs[from]
	return isBlob || strings.Trim(from, "0") == ""
}
