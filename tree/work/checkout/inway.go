package checkout

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// clearOps returns the operations that remove untracked content of folders that stand in the
// place of files which ops make. A folder stays, with all of its content, if it has something
// that [Clean] keeps, such as another repository. The file is then an error of the checkout.
func clearOps(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op) ([]worktree.Op, error) {
	folders := foldersInWay(r.Worktree(), ops)
	if len(folders) == 0 {
		return nil, nil
	}

	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: folders, ListIgnored: true})
	if err != nil {
		return nil, err
	}
	below := map[string][]*worktree.Found{}
	for _, f := range found {
		if f.Old != nil || f.State == worktree.ModeChanged { // tracked: ops remove it
			continue
		}
		for dir, _ := tree.Split(f.Path); dir != ""; dir, _ = tree.Split(dir) {
			below[dir] = append(below[dir], f)
		}
	}

	c := &cleaner{CleanOptions: CleanOptions{Folders: true, Ignored: WithIgnored}, repo: r, idx: idx}
	for _, dir := range folders {
		at := &worktree.Found{Path: dir, Dir: true, State: worktree.Untracked}
		if c.isRepository(dir, below[dir]) {
			continue
		}
		if whole, _ := c.mayRemoveFolder(at, below[dir], false); whole && len(below[dir]) > 0 {
			c.addToRemove(below[dir])
		}
	}
	return c.ops, nil
}

// foldersInWay returns the paths at which ops make a file or symlink and the worktree has a
// folder.
func foldersInWay(w *worktree.Worktree, ops []worktree.Op) []string {
	var folders []string
	absent := "" // a folder that the worktree lacks
	for _, op := range ops {
		dir, _ := tree.Split(op.Path)
		if op.New == nil || tree.IsDir(op.New) || absent != "" && tree.Below(dir, absent) {
			continue
		}
		info, err := w.Lstat(op.Path)
		if err == nil && info.Type == object.TypeDir {
			folders = append(folders, op.Path)
		} else if _, dirErr := w.Lstat(dir); err != nil && dir != "" && dirErr != nil {
			absent = dir
		}
	}
	return folders
}
