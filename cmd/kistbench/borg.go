package main

import (
	"context"
	"fmt"
	"path/filepath"
)

func borg() tool {
	return tool{name: "borg", ask: "--version", version: word(1), open: openBorg, places: []string{here}, settings: "no encryption; compression zstd,1; by default it is lz4"}
}

type borgRepository struct {
	opening
	archives int
}

func openBorg(ctx context.Context, o opening) (repository, error) {
	o.runner = &runner{append(append([]string{}, o.env...), "BORG_BASE_DIR="+filepath.Join(o.dir, "base"), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes")}
	b := &borgRepository{opening: o}
	_, err := b.output(ctx, command{args: []string{b.program, "init", "--make-parent-dirs", "-e", "none", b.folders()[0]}})
	return b, err
}

// last returns the name of the last archive.
func (b *borgRepository) last() string { return fmt.Sprintf("%s::%d", b.folders()[0], b.archives) }

func (b *borgRepository) save(ctx context.Context, _ string) (Sample, error) {
	b.archives++
	return b.run(ctx, command{dir: b.data, args: []string{b.program, "create", "-C", "zstd,1", b.last(), "."}})
}

func (b *borgRepository) restore(ctx context.Context, to string) (Sample, error) {
	return b.run(ctx, command{dir: to, args: []string{b.program, "extract", b.last()}})
}

func (b *borgRepository) folders() []string { return []string{filepath.Join(b.dir, "repository")} }
