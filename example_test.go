package kist_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/views"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

const firstText = "the first version of a letter that is kept\n"

// options are those of a program whose remotes are all in folders.
var options = kist.Options{Host: "laptop", Backend: func(ctx context.Context, url string) (remote.Backend, error) {
	return dir.Open(ctx, url, remote.Env{Now: time.Now})
}}

// Example makes a repository, commits two versions of a file, and reads the first version.
func Example() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	repo, err := kist.Init(ctx, dir, kist.Options{}, kist.InitOptions{})
	check(err)
	defer repo.Close()
	check(repo.SetConfig(ctx, "user.name", "Ada"))

	for _, text := range []string{firstText, "the second version\n"} {
		write(dir, text)
		_, err := stage.Add(ctx, repo, stage.AddOptions{})
		check(err)
		_, err = commits.Commit(ctx, repo, commits.CommitOptions{Message: "write"})
		check(err)
	}

	_, commit, err := repo.ReadCommit(ctx, "HEAD~1")
	check(err)
	letter, err := tree.Find(ctx, repo.Contents(), commit.Tree, "letter.txt")
	check(err)
	text, err := io.ReadAll(object.NewContentReader(ctx, repo.Contents(), letter))
	check(err)
	fmt.Printf("%s: %s", commit.Author.Name, text)
	// Output: Ada: the first version of a letter that is kept
}

// A backup stages, commits and pushes the changes of a folder. Then it applies a policy,
// collects garbage if that is due, and reads back a tenth of the remote.
func Example_backup() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	repo, err := kist.Init(ctx, filepath.Join(dir, "letters"), options, kist.InitOptions{})
	check(err)
	defer repo.Close()
	addRemote(ctx, repo, filepath.Join(dir, "remote"))
	write(repo.Root(), firstText)

	lock, err := backup.Lock(ctx, repo, time.Minute) // while another backup runs
	check(err)
	defer lock.Unlock()
	report := backup.Run(ctx, repo, backup.Options{Policy: retain.Policy{Daily: 7}, Maintain: true, Check: 0.1})
	for _, step := range report.Steps {
		fmt.Printf("%s: %s\n", step.Name, step.Outcome)
	}
	check(report.Err())
	fmt.Printf("new: %s\n", report.Staged.Added.Paths())
	// Output:
	// add: done
	// commit: done
	// push: done
	// expire: nothing to do
	// gc: nothing to do
	// remote gc: nothing to do
	// check: done
	// new: [letter.txt]
}

// A restore writes an earlier version of a file to the worktree.
func Example_restore() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	backUp(ctx, dir, firstText, 0)
	backUp(ctx, dir, "a bad day\n", 0)

	repo, err := kist.Open(filepath.Join(dir, "letters"), options)
	check(err)
	defer repo.Close()
	exchange.Connect(ctx, repo)
	n, err := checkout.Restore(ctx, repo, checkout.RestoreOptions{Source: "HEAD~1", Paths: []string{"letter.txt"}, Worktree: true})
	check(err)
	text, err := os.ReadFile(filepath.Join(repo.Root(), "letter.txt"))
	check(err)
	fmt.Printf("%d: %s", n, text)
	// Output: 1: the first version of a letter that is kept
}

// A clone makes another repository from a remote.
func Example_clone() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	backUp(ctx, dir, firstText, 0)

	repo, result, err := exchange.Clone(ctx, filepath.Join(dir, "clone"), options, exchange.CloneOptions{URL: filepath.Join(dir, "remote")})
	check(err)
	defer repo.Close()
	text, err := os.ReadFile(filepath.Join(repo.Root(), "letter.txt"))
	check(err)
	fmt.Printf("%s: %s", result.Head.Branch, text)
	// Output: main: the first version of a letter that is kept
}

// A repository with a local limit keeps its content on the remote. [exchange.Connect] is all
// that a program needs to read it.
func Example_evicted() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	backUp(ctx, dir, firstText, 1)
	repo, err := kist.Open(filepath.Join(dir, "letters"), options)
	check(err)
	defer repo.Close()
	exchange.Connect(ctx, repo)

	evicted, err := volume.HasEvicted(ctx, repo.Objects())
	check(err)
	fmt.Println("evicted:", evicted)
	_, commit, err := repo.ReadCommit(ctx, "HEAD")
	check(err)
	letter, err := tree.Find(ctx, repo.Contents(), commit.Tree, "letter.txt")
	check(err)
	text, err := io.ReadAll(object.NewContentReader(ctx, repo.Contents(), letter))
	check(err)
	fmt.Printf("%s", text)
	// Output:
	// evicted: true
	// the first version of a letter that is kept
}

// A view of a connected repository follows its branch.
func Example_view() {
	ctx, dir := context.Background(), newDir()
	defer os.RemoveAll(dir)
	backUp(ctx, dir, firstText, 0)
	repo, err := kist.Open(filepath.Join(dir, "letters"), options)
	check(err)
	defer repo.Close()
	exchange.Connect(ctx, repo)
	types, err := views.Add(ctx, repo, views.View{Name: "types", Template: "{ext}/{name}"})
	check(err)

	write(repo.Root(), "the second version\n")
	_, _, err = commits.StageAndCommit(ctx, repo, stage.AddOptions{}, commits.CommitOptions{Message: "write"})
	check(err)
	text, err := os.ReadFile(filepath.Join(types.Dir, "txt", "letter.txt"))
	check(err)
	fmt.Printf("%s", text)
	// Output: the second version
}

// backUp writes a text to a file in dir/letters, and backs it up to dir/remote. It makes the
// repository if there is none.
func backUp(ctx context.Context, dir, text string, limit int64) {
	letters := filepath.Join(dir, "letters")
	repo, err := kist.Open(letters, options)
	if err != nil {
		repo, err = kist.Init(ctx, letters, options, kist.InitOptions{})
		check(err)
		addRemote(ctx, repo, filepath.Join(dir, "remote"))
	}
	defer repo.Close()
	write(letters, text)
	lock, err := backup.Lock(ctx, repo, 0)
	check(err)
	defer lock.Unlock()
	check(backup.Run(ctx, repo, backup.Options{LocalLimit: limit}).Err())
}

// addRemote adds the remote origin in a new folder.
func addRemote(ctx context.Context, repo *kist.Repository, folder string) {
	check(os.Mkdir(folder, 0o700))
	check(registry.Add(ctx, repo, registry.Remote{Name: "origin", URL: folder}))
}

// newDir returns a new temporary folder. The caller removes it.
func newDir() string {
	dir, err := os.MkdirTemp("", "kist")
	check(err)
	return dir
}

// write writes the file letter.txt in a folder.
func write(dir, text string) {
	check(os.WriteFile(filepath.Join(dir, "letter.txt"), []byte(text), 0o644))
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
