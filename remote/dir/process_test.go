package dir

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

var bg = context.Background()

// children are the functions that the test program runs as a child process.
var children = map[string]func(b *Backend, arg string) error{
	"race":  race,
	"write": write,
	"fill":  fill,
}

func TestMain(m *testing.M) {
	name := os.Getenv("KIST_TEST_CHILD")
	if name == "" {
		os.Exit(m.Run())
	}
	b, err := open(bg, os.Args[1], "")
	if err == nil {
		err = children[name](b, os.Args[2])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func process(t *testing.T, name, root, arg string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, root, arg)
	cmd.Env = append(os.Environ(), "KIST_TEST_CHILD="+name)
	return cmd
}

const rounds = 200

func record(i int) string { return fmt.Sprintf("root/%020d", i) }

// race creates the same records as other processes. It prints the records that it won.
func race(b *Backend, me string) error {
	for i := range rounds {
		switch err := b.Create(bg, record(i), []byte(me)); {
		case err == nil:
			fmt.Println(i)
		case !errors.Is(err, remote.ErrExists):
			return err
		}
	}
	return nil
}

// Concurrent processes create the same records. One process wins each record, and the
// record has its bytes.
func TestProcessesRace(t *testing.T) {
	root := t.TempDir()
	makers := map[int]string{}

	outs := map[string]*bytes.Buffer{}
	var cmds []*exec.Cmd
	for i := range 4 {
		me := strconv.Itoa(i)
		cmd := process(t, "race", root, me)
		outs[me] = new(bytes.Buffer)
		cmd.Stdout = outs[me]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}

	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}

	for me, out := range outs {
		for line := range strings.Lines(out.String()) {
			i, err := strconv.Atoi(strings.TrimSpace(line))
			if other, ok := makers[i]; ok || err != nil {
				t.Errorf("processes %s and %s both created record %q", me, other, line)
			}
			makers[i] = me
		}
	}

	b := openDir(t, root)
	for i := range rounds {
		p := make([]byte, 10)
		n, err := b.Get(bg, record(i), p, 0)
		if err != nil || string(p[:n]) != makers[i] || n == 0 {
			t.Errorf("record %d: %q, %v; created by %q", i, p[:n], err, makers[i])
		}
	}

	noTemps(t, root)
}

// content returns the bytes of a blob.
func content(name string) []byte {
	seed := [32]byte{}
	copy(seed[:], name)
	data := make([]byte, 300_000+len(name))
	rand.NewChaCha8(seed).Read(data)
	return data
}

// write stores blobs until it is killed. It prints each name before and after.
func write(b *Backend, run string) error {
	for i := 0; ; i++ {
		name := fmt.Sprintf("packs/%d/%s-%d", i%10, run, i)
		if i%3 == 0 {
			name = fmt.Sprintf("probe/%s/root/%d", run, i)
		}
		fmt.Println("begin", name)
		if err := store(b, name); err != nil {
			return err
		}
		fmt.Println("end", name)
	}
}

func store(b *Backend, name string) error {
	data := content(name)
	if remote.IsRecord(name) {
		return b.Create(bg, name, data)
	}
	return b.Put(bg, name, bytes.NewReader(data), int64(len(data)))
}

// A killed process leaves only intact blobs, and all blobs that it reported as stored.
func TestKill(t *testing.T) {
	root := t.TempDir()
	stored := map[string]bool{}
	for run := range 12 {
		cmd := process(t, "write", root, strconv.Itoa(run))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}

		lines := bufio.NewReader(out)
		after := rand.IntN(15)
		for seen := 0; ; seen++ {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				break
			}
			word, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if word != "begin" && word != "end" {
				t.Fatalf("run %d: %s", run, line)
			}

			stored[name] = word == "end"
			if seen == after {
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
				cmd.Process.Kill()
			}
		}

		cmd.Wait()
	}

	b := openDir(t, root)
	listed, err := names(b, "")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range listed {
		if _, known := stored[name]; !known {
			t.Errorf("%s: no process stored it", name)
		}
		want := content(name)
		p := make([]byte, len(want)+1)
		n, err := b.Get(bg, name, p, 0)
		if err != nil || !bytes.Equal(p[:n], want) {
			t.Errorf("%s: %d bytes are not those stored, %v", name, n, err)
		}
		delete(stored, name)
	}

	for name, done := range stored {
		if done {
			t.Errorf("%s is lost", name)
		} else if err := store(b, name); err != nil {
			t.Errorf("second attempt at %s: %v", name, err)
		}
	}
}
