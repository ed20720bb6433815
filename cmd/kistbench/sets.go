package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// allSets are the names that -sets takes, in the order of the run. The last seven are not folders.
// versions is a race over releases, and commands runs commands on histories. folder, ssh and s3 are races to remotes
// in a folder, by SSH and to a server. lazy reads parts of a version from a server. growth measures only kist.
var allSets = []string{"media", "src", "many", "db", "wide", setVersions, setCommands, setFolder, setSSH, setS3, setLazy, setGrowth}

const (
	setVersions = "versions"
	setFolder   = "folder"
	setSSH      = "ssh"
	setS3       = "s3"
	setLazy     = "lazy"
	setGrowth   = "growth"
)

// dataSet is a folder of files to work on.
type dataSet struct {
	name, title string
	stage       string // the name for -sets
	then        string // describes mutate; empty if it is nil
	alone       bool   // only kist takes part
	compacts    bool   // gc is measured, too
	// about returns the size of the set in advance, or an error if the set is not available.
	about func(context.Context) (census, error)
	// make makes the files in an empty folder.
	make func(ctx context.Context, dir string) error
	// mutate makes a small change. Each n makes another one.
	mutate func(dir string, n uint64) error
}

const mib = 1 << 20

// dataSets returns the data sets of the races, in the sizes that the options ask for.
func dataSets(opts *options) []dataSet {
	sets := []dataSet{
		mediaSet(int64(opts.scale(1024, 256)) * mib),
		sourceSet(opts.quick),
		manySet(opts.scale(200_000, 20_000)),
		databaseSet(int64(opts.scale(1024, 256)) * mib),
		wideSet(opts.wide),
	}
	for i := range sets {
		sets[i].stage = sets[i].name
		sets[i].compacts = sets[i].name == "src" || sets[i].name == "many"
	}
	many := opts.scale(200_000, 20_000)
	for _, n := range fileCounts(opts.files) {
		if n != many {
			set := manySet(n)
			set.name, set.stage, set.alone = fmt.Sprint(filesPrefix, n), setGrowth, true
			sets = append(sets, set)
		}
	}
	if opts.large > 0 {
		sets = append(sets, largeSet(int64(opts.large)<<30))
	}
	return sets
}

// known returns an about for a set of a fixed size.
func known(files int, bytes int64) func(context.Context) (census, error) {
	return func(context.Context) (census, error) {
		return census{files: files, bytes: bytes, disk: max(bytes, int64(files)*block)}, nil
	}
}

func mediaSet(size int64) dataSet {
	const files = 8
	return dataSet{
		name:  "media",
		title: fmt.Sprintf("%s in %d files that do not compress", byteSize(size), files),
		then:  "1 MiB is put in front of a file",
		about: known(files, size),
		make: func(ctx context.Context, dir string) error {
			for i := range files {
				if err := errors.Join(ctx.Err(), writeNoise(filepath.Join(dir, fmt.Sprintf("film-%d.mov", i)), uint64(i), size/files)); err != nil {
					return err
				}
			}
			return nil
		},
		mutate: func(dir string, n uint64) error { return putInFront(filepath.Join(dir, "film-3.mov"), 1000+n, mib) },
	}
}

// partFiles is the number of files in a folder of the set mixed.
const partFiles = 1000

// mixedSet has folders of small files, one small file alone, and one large file.
func mixedSet(folders int, large int64) dataSet {
	name := func(i int) string {
		return filepath.Join(fmt.Sprintf("d%02d", i/partFiles), fmt.Sprintf("note-%06d.txt", i))
	}
	files := folders * partFiles
	return dataSet{
		name:  "mixed",
		title: fmt.Sprintf("%d folders of %s text files of up to %d bytes, and a file of %s that does not compress", folders, thousands(partFiles), smallFile, byteSize(large)),
		about: known(files+1, int64(files)*smallFile/2+large),
		make: func(_ context.Context, dir string) error {
			return errors.Join(writeTexts(dir, files, smallFile, 60, name), os.Mkdir(filepath.Join(dir, "film"), 0o777), writeNoise(filepath.Join(dir, largePart), 60, large))
		},
	}
}

func sourceSet(quick bool) dataSet {
	root := func(ctx context.Context) (string, error) {
		root := printed(ctx, "go", "env", "GOROOT")
		if root == "" {
			return "", errors.New("'go env GOROOT' prints no folder")
		}
		if quick {
			return filepath.Join(root, "src"), nil
		}
		return root, nil
	}
	title := "the tree of the Go toolchain: sources, and some programs"
	change := "a line is added to src/fmt/print.go"
	file := "src/fmt/print.go"
	if quick {
		title, change, file = "the sources of the Go toolchain", "a line is added to fmt/print.go", "fmt/print.go"
	}
	return dataSet{
		name: "src", title: title, then: change,
		about: func(ctx context.Context) (census, error) {
			from, err := root(ctx)
			if err != nil {
				return census{}, err
			}
			return count(from)
		},
		make: func(ctx context.Context, dir string) error {
			from, err := root(ctx)
			if err != nil {
				return err
			}
			return mirror(ctx, from, dir)
		},
		mutate: func(dir string, n uint64) error {
			return appendLine(filepath.Join(dir, filepath.FromSlash(file)), n)
		},
	}
}

// smallFile is the size of the largest file of the set many, in bytes.
const smallFile = 4000

func manySet(files int) dataSet {
	return dataSet{
		name:   "many",
		title:  fmt.Sprintf("%s text files of up to %d bytes, in folders of 100", thousands(files), smallFile),
		then:   "a line is added to one file",
		about:  known(files, int64(files)*smallFile/2),
		make:   func(_ context.Context, dir string) error { return writeTexts(dir, files, smallFile, 10, noteName) },
		mutate: func(dir string, n uint64) error { return appendLine(filepath.Join(dir, noteName(files/2)), n) },
	}
}

// noteName returns the path of file i of the set many, in folders of 100.
func noteName(i int) string {
	return filepath.FromSlash(fmt.Sprintf("d%03d/e%02d/note-%06d.txt", i/2000, i/100%20, i))
}

func databaseSet(size int64) dataSet {
	return dataSet{
		name:  "db",
		title: fmt.Sprintf("one file of %s like SQLite's, of pages of 4 KiB", byteSize(size)),
		then:  "1 % of the pages, all over the file, is replaced",
		about: known(1, size),
		make: func(_ context.Context, dir string) error {
			return writeDatabase(filepath.Join(dir, "chest.sqlite"), int(size/pageSize), 20)
		},
		mutate: func(dir string, n uint64) error { return changePages(filepath.Join(dir, "chest.sqlite"), 0.01, 100+n) },
	}
}

func wideSet(files int) dataSet {
	name := func(i int) string { return filepath.Join("wide", fmt.Sprintf("note-%07d.txt", i)) }
	const most = 300
	return dataSet{
		name:   "wide",
		title:  fmt.Sprintf("one folder of %s text files of up to %d bytes", thousands(files), most),
		then:   "a line is added to one file",
		about:  known(files, int64(files)*(100+most)/2),
		make:   func(_ context.Context, dir string) error { return writeTexts(dir, files, most, 30, name) },
		mutate: func(dir string, n uint64) error { return appendLine(filepath.Join(dir, name(files/2)), n) },
	}
}

func largeSet(size int64) dataSet {
	return dataSet{
		name:  "large",
		stage: setGrowth,
		title: fmt.Sprintf("one file of %s that does not compress", byteSize(size)),
		then:  "1 MiB is put in front of it",
		alone: true,
		about: known(1, size),
		make: func(_ context.Context, dir string) error {
			return writeNoise(filepath.Join(dir, "large.img"), 40, size)
		},
		mutate: func(dir string, n uint64) error { return putInFront(filepath.Join(dir, "large.img"), 1000+n, mib) },
	}
}

// byteSize returns a number of bytes with a binary unit.
func byteSize(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), -1
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[unit:unit+1] + "iB"
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
