// Package bisect finds the commit that brought a change: the user tests commits. Each
// test halves the number of suspects.
//
// The state is the refs below refs/bisect/, which gc keeps like all refs, and a text,
// BISECT_MSG. Each step first records the user's answer, then checks out a commit. After a
// kill in between, the same command continues.
package bisect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// State is a bisection under way.
type State struct {
	Start   string   // the branch, or the ID in hexadecimal digits, to go back to
	Terms   Terms    // zero until the first commit is marked
	Paths   []string // only commits that changed one of them matter; none: all do
	Checked bool     // each good commit was found to be an ancestor of the bad one, or the merge bases to be good
	Log     string   // the commands so far, for people and for a shell

	marks
}

// Terms are the words for the two kinds of commits.
type Terms struct{ Bad, Good string }

// BadGood and NewOld are the possible terms.
var (
	BadGood = Terms{"bad", "good"}
	NewOld  = Terms{"new", "old"}
)

// marks are the commits that the user has marked.
type marks struct {
	Bad        object.ID // zero: none yet
	Good, Skip []object.ID
}

// ErrNone means that no bisection is under way.
var ErrNone = fmt.Errorf("a bisect is %w", operation.ErrNotInProgress)

// Current returns the bisection under way. It returns [ErrNone] if there is none.
func Current(r *kist.Repository) (*State, error) {
	text, err := r.Refs().Message(refs.BisectMsg)
	if errors.Is(err, refs.ErrNotFound) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	s, err := decode(text)
	if err != nil {
		return nil, refs.Damaged(refs.BisectMsg, err)
	}

	list, err := r.Refs().List(refs.Bisect)
	if err != nil {
		return nil, err
	}
	for _, ref := range list {
		switch kind, _, _ := strings.Cut(strings.TrimPrefix(ref.Name, refs.Bisect), "-"); kind {
		case "bad":
			s.Bad = ref.ID
		case "good":
			s.Good = append(s.Good, ref.ID)
		case "skip":
			s.Skip = append(s.Skip, ref.ID)
		}
	}
	return s, nil
}

// decode reads the text of a state: lines of a word and its value, an empty line, the log.
func decode(text string) (*State, error) {
	s := &State{}
	head, log, found := strings.Cut(text, "\n\n")
	if !found {
		return nil, errors.New("has no empty line")
	}
	s.Log = log
	for line := range strings.SplitSeq(head, "\n") {
		word, value, _ := strings.Cut(line, " ")
		switch {
		case word == "start" && s.Start == "" && refs.CheckName(refs.Heads+value) == nil:
			s.Start = value
		case word == "terms" && value == "bad":
			s.Terms = BadGood
		case word == "terms" && value == "new":
			s.Terms = NewOld
		case line == "checked":
			s.Checked = true
		case word == "path":
			path, err := strconv.Unquote(value)
			if err == nil {
				path, err = tree.CleanPath(path)
			}
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			s.Paths = append(s.Paths, path)
		default:
			return nil, fmt.Errorf("line %q is not understood", line)
		}
	}
	if s.Start == "" {
		return nil, errors.New("the start of the bisect is missing")
	}
	return s, nil
}

func (s *State) encode() string {
	var text strings.Builder
	fmt.Fprintf(&text, "start %s\n", s.Start)
	if s.Terms.Bad != "" {
		fmt.Fprintf(&text, "terms %s\n", s.Terms.Bad)
	}
	if s.Checked {
		text.WriteString("checked\n")
	}
	for _, path := range s.Paths {
		fmt.Fprintf(&text, "path %s\n", strconv.Quote(path))
	}
	text.WriteString("\n" + s.Log)
	return text.String()
}

// save writes the text of the state.
func (s *State) save(ctx context.Context, r *kist.Repository) error {
	return r.Refs().SetMessage(ctx, refs.BisectMsg, s.encode())
}

// logf adds a line to the log, without saving it.
func (s *State) logf(format string, args ...any) {
	s.Log += strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n"
}

// logMark notes in the log that a commit is bad, good or skipped.
func (s *State) logMark(ctx context.Context, r *kist.Repository, term string, id object.ID) {
	s.logf("# %s: [%s] %s", term, id, Subject(ctx, r, id))
}

// Subject returns the first line of a commit's message, "" if it cannot be read.
func Subject(ctx context.Context, r *kist.Repository, id object.ID) string {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return ""
	}
	return c.Subject()
}

// setMarks sets marks. The keys of values are their names below refs/bisect/.
func (s *State) setMarks(ctx context.Context, r *kist.Repository, values map[string]object.ID) error {
	var changes []refs.Change
	for name, id := range values {
		old, err := r.Refs().Get(refs.Bisect + name)
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return err
		}
		changes = append(changes, refs.Change{Name: refs.Bisect + name, Old: old, New: id})
	}
	return r.Publish(ctx, func(tx *kist.Tx) { tx.Move(changes...) })
}

// clear removes all marks.
func clear(ctx context.Context, r *kist.Repository) error {
	list, err := r.Refs().List(refs.Bisect)
	if err != nil || len(list) == 0 {
		return err
	}
	var changes []refs.Change
	for _, ref := range list {
		changes = append(changes, refs.Change{Name: ref.Name, Old: ref.ID})
	}
	return r.Publish(ctx, func(tx *kist.Tx) { tx.Move(changes...) })
}
