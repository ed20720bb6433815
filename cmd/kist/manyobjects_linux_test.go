package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

var manyObjects = flag.Int("kist.objects", 1_000_000, "objects of the invented index of TestMemoryOfManyObjects")

// The bounds of the memory of a command, in bytes.
const (
	mostMemory      = 512 << 20 // with up to 10 million objects
	memoryPerObject = 40        // beyond what the command takes on a remote of few objects
)

// TestMemoryOfManyObjects runs commands on a remote with an index of many objects, and bounds the memory of each. Index and
// packs are invented: the packs are holes of the right size.
func TestMemoryOfManyObjects(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs memory for itself")
	}
	s := newShell(t)
	s.env = append(s.env, "GOGC=25") // so that garbage does not hide a leak
	s.kist("init")
	s.write(map[string]string{"docs/a": "one", "docs/b": "two"})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.kist("remote", "add", "origin", s.path("../remote"))
	s.kist("push", "-u", "origin", "main")
	few := s.memoryOfReaders("few")

	inventIndex(t, s.path("../remote"), *manyObjects)
	many := s.memoryOfReaders("many")
	for name, memory := range many {
		t.Logf("%-14s %4d MiB, with few objects %d MiB", name, memory>>20, few[name]>>20)
		if most := few[name] + int64(*manyObjects)*memoryPerObject; memory > most || memory > mostMemory {
			t.Errorf("%s takes %d MiB for %d objects, want %d at most", name, memory>>20, *manyObjects, min(most, mostMemory)>>20)
		}
	}
}

// memoryOfReaders returns the memory of commands that look up objects of a remote. Each changes something, so that it needs the index.
func (s *shell) memoryOfReaders(name string) map[string]int64 {
	s.Helper()
	memory := map[string]int64{}
	run := func(what string, in *shell, args ...string) {
		s.Helper()
		var stdout, stderr bytes.Buffer
		cmd := in.command(context.Background(), args...) // without a limit of time
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			s.Fatalf("%v: %v", err, outcomeOf(cmd, args, &stdout, &stderr))
		}
		if memory[what] = readPeak(cmd); memory[what] == 0 {
			s.Fatalf("kist %q did not note its memory", args)
		}
	}
	url := s.path("../remote")

	s.write(map[string]string{"docs/" + name: name})
	s.kist("add", ".")
	s.kist("commit", "-m", name)
	run("push", s, "push", "origin", "main")
	run("verify", s, "verify", "--remote", "origin")
	run("remote gc -n", s, "remote", "gc", "-n", "origin")
	run("clone", s, "clone", url, s.path("../clone-"+name))
	run("single branch", s, "clone", "-n", "--single-branch", url, s.path("../single-"+name))
	s.write(map[string]string{"docs/" + name: name + " again"})
	s.kist("add", ".")
	s.kist("commit", "-m", name)
	s.kist("push", "origin", "main")
	run("fetch", s.in("../single-"+name), "fetch")
	return memory
}

// inventIndex appends a root to a remote in a folder, with an index file of n chunks in packs that are holes.
func inventIndex(t *testing.T, folder string, n int) {
	t.Helper()
	b, err := dir.Open(t.Context(), folder, remote.Env{Getenv: func(string) string { return "" }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r, err := transfer.Open(t.Context(), b, transfer.Options{Now: time.Now, URL: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	packs := make([]pack.Info, (n+objectsOfPack-1)/objectsOfPack)
	for i := range packs {
		packs[i].Size = pack.TargetSize
		packs[i].Name[0] = byte(i)
		binary.BigEndian.PutUint32(packs[i].Name[1:], uint32(i+1))
		path := filepath.Join(folder, filepath.FromSlash(packs[i].Name.Path()))
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, nil, 0o666)
		}
		if err == nil {
			err = os.Truncate(path, int64(packs[i].Size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	file, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	if err := pack.MergeIndex(io.MultiWriter(file, sum), slices.Clone(packs), inventedChunks(packs, n)); err != nil {
		t.Fatal(err)
	}
	index := rootlog.File{Name: pack.Name{0xee}, Sum: [sha256.Size]byte(sum.Sum(nil))}
	if index.Size, err = file.Seek(0, io.SeekCurrent); err != nil {
		t.Fatal(err)
	}
	if err := r.Backend().Put(t.Context(), index.Name.IndexPath(), file, index.Size); err != nil {
		t.Fatal(err)
	}
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change := r.NewChange()
	change.AddIndexes = []rootlog.File{index}
	if _, err := r.Log().Append(t.Context(), head, *change); err != nil {
		t.Fatal(err)
	}
}

const objectsOfPack = 4000

// inventedChunks yields the entries of n chunks, sorted by key. Their IDs are spread as hashes are.
func inventedChunks(packs []pack.Info, n int) iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		step := math.MaxUint64 / uint64(n)
		for i := range n {
			e := pack.Entry{Pack: packs[i%len(packs)], Offset: remote.HeaderSize + uint32(i/len(packs))*8000, Stored: 4000, Raw: 8000}
			e.Key.Kind = object.KindChunk
			id := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
			binary.BigEndian.PutUint64(id[:], uint64(i)*step+binary.BigEndian.Uint64(id[:])%step)
			e.Key.ID = id
			if !yield(e, nil) {
				return
			}
		}
	}
}
