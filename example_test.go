package kist_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist"
)

// Example makes a repository, records two versions of a file, and reads the
// first one back.
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
		if _, err := repo.Add(ctx, kist.AddOptions{}); err != nil {
			log.Fatal(err)
		}
		if _, err := repo.Commit(ctx, kist.CommitOptions{Message: "write"}); err != nil {
			log.Fatal(err)
		}
	}

	id, commit, err := repo.ReadCommit(ctx, "HEAD~1")
	if err != nil {
		log.Fatal(err)
	}
	files, err := repo.FS(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	text, err := fs.ReadFile(files, "letter.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s", commit.Author.Name, text)
	// Output: Ada: the first version of a letter that is kept
}
