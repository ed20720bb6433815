package index

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain runs the test binary as a child process if the environment asks for it.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("KIST_TEST_INDEX_DIR"); os.Getenv("KIST_TEST_INDEX") {
	case "add":
		os.Exit(playAdd(dir))
	case "generations":
		os.Exit(playGenerations(dir))
	}
	os.Exit(m.Run())
}

func play(part, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KIST_TEST_INDEX="+part, "KIST_TEST_INDEX_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

const additions = 20

func playAdd(dir string) int {
	for i := range additions {
		// The lock is unfair, so with a slow disk a process may wait long.
		err := UpdateWith(ctx, dir, Options{Wait: 10 * time.Minute}, func(x *Index) error {
			x.fold = i%5 == 0
			return x.Set(fmt.Sprintf("%d/%d", os.Getpid(), i), file(i))
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var all []*exec.Cmd
	for range 4 {
		cmd := play("add", dir)
		must(t, cmd.Start())
		all = append(all, cmd)
	}
	for _, cmd := range all {
		must(t, cmd.Wait())
	}
	x, err := Load(dir)
	must(t, err)
	if x.Len() != len(all)*additions || x.dirs != len(all)+1 {
		t.Errorf("%d entries in %d directories, want %d in %d", x.Len(), x.dirs, len(all)*additions, len(all)+1)
	}
}

const members = 50

// playGenerations updates the index without end. Each update gives all entries the content of the
// next generation. It prints each generation after its update.
func playGenerations(dir string) int {
	for {
		generation := 0
		err := Update(ctx, dir, func(x *Index) error {
			if e := x.Entry("0/f"); e != nil {
				generation = int(e.Stat.Inode)
			}
			generation++
			x.fold = generation%3 == 0
			for i := range members {
				if err := x.Set(fmt.Sprintf("%d/f", i), file(generation)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(generation)
	}
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	for range 25 {
		cmd := play("generations", dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatal("the process printed nothing")
		}
		time.AfterFunc(rand.N(20*time.Millisecond), func() { cmd.Process.Kill() })
		printed := lines.Text()
		for lines.Scan() {
			printed = lines.Text()
		}
		cmd.Wait()

		least, err := strconv.Atoi(strings.TrimSpace(printed))
		must(t, err)
		x, err := Load(dir)
		must(t, err)
		check(t, x)
		got := int(x.Entry("0/f").Stat.Inode)
		if got != least && got != least+1 {
			t.Fatalf("loaded generation %d, want %d or the next", got, least)
		}
		for path, e := range x.All() {
			if *e != named(file(got), "f") {
				t.Fatalf("%q has generation %d, want %d", path, e.Stat.Inode, got)
			}
		}
		if x.Len() != members {
			t.Fatalf("%d entries, want %d", x.Len(), members)
		}
	}
}
