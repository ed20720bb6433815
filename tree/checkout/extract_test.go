package checkout_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// A file that changes after it was written is found only by Verify. Symlinks come last, so
// the file is in its place when the progress says that all is written.
func TestExtractVerify(t *testing.T) {
	s := treetest.New(t)
	s.Write("file", "some content")
	s.Check(os.Symlink("file", filepath.Join(s.Repo.Root(), "link")))
	s.Add(stage.AddOptions{})
	s.Commit("one")
	source, err := view.OfCommit(t.Context(), s.Repo, "HEAD")
	s.Check(err)

	for _, verify := range []bool{false, true} {
		out := t.TempDir()
		_, err := checkout.Extract(t.Context(), s.Repo, source, checkout.ExtractOptions{
			Paths: []string{""}, To: out, Verify: verify,
			Progress: func(done, _ kist.Amount) {
				if done.Files == 2 {
					s.Check(os.WriteFile(filepath.Join(out, "file"), []byte("OTHER CONTENT"), 0o666))
				}
			},
		})
		var failed *worktree.ApplyError
		if got := errors.As(err, &failed) && errors.Is(err, checkout.ErrNotVerified); got != verify {
			t.Errorf("with Verify: %t: %v", verify, err)
		}
		if verify && (len(failed.Failed) != 1 || failed.Failed[0].Path != "file") {
			t.Errorf("not verified: %v", failed.Failed)
		}
	}
}
