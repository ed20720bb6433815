package kist_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// Example makes a repository, commits two versions of a file, and reads the first version.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "kist")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	repo, err := kist.Init(ctx, dir, kist.Options{}, kist.InitOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer repo.Close()
	if err := repo.SetConfig(ctx, "user.name", "Ada"); err != nil {
		log.Fatal(err)
	}

	for _, text := range []string{"the first version of a letter that is kept\n", "the second version\n"} {
		if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
		if _, err := stage.Add(ctx, repo, stage.AddOptions{}); err != nil {
			log.Fatal(err)
		}
		if _, err := commits.Commit(ctx, repo, commits.CommitOptions{Message: "write"}); err != nil {
			log.Fatal(err)
		}
	}

	_, commit, err := repo.ReadCommit(ctx, "HEAD~1")
	if err != nil {
		log.Fatal(err)
	}
	letter, err := tree.Find(ctx, repo.Contents(), commit.Tree, "letter.txt")
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(object.NewContentReader(ctx, repo.Contents(), letter))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s", commit.Author.Name, text)
	// Output: Ada: the first version of a letter that is kept
}
