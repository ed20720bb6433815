package refs

import (
	"bufio"
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

	"github.com/kist-vcs/kist/object"
)

// The test binary runs itself as a child process that works on refs. These variables are set
// in the child's environment.
const (
	childWork = "KIST_TEST_REFS_WORK"
	childDir  = "KIST_TEST_REFS_DIR"
)

func TestMain(m *testing.M) {
	s := Open(os.Getenv(childDir), time.Now)
	var err error
	switch work := os.Getenv(childWork); {
	case work == "":
		os.Exit(m.Run())
	case work == "commit":
		err = commitForEver(s)
	default:
		err = raceOnce(s, work)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func child(t *testing.T, s *Store, work string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childWork+"="+work, childDir+"="+s.dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// commitForEver moves HEAD's branch to ever higher numbers. The same update creates or deletes
// another branch. After each update it prints the number.
func commitForEver(s *Store) error {
	head, err := s.Head()
	if err != nil {
		return err
	}

	n := 0
	for !head.ID.IsZero() && head.ID != id(n) {
		n++
	}

	for {
		other, err := s.Get("refs/heads/other/x")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		next := object.ID{}
		if other.IsZero() {
			next = id(n)
		}
		err = s.Update(ctx, []Change{
			{Name: "HEAD", Old: head.ID, New: id(n + 1), Reason: "commit"},
			{Name: "refs/heads/other/x", Old: other, New: next, Reason: "other"},
		}, ann)
		if err != nil {
			return err
		}
		n++
		head.ID = id(n)
		fmt.Println(n)
	}
}

// A killed process leaves every ref at its old or its new value. Acknowledged updates stay, and
// the next process can continue.
func TestKill(t *testing.T) {
	s := newStore(t)
	acked := 0
	for round := range 25 {
		cmd := child(t, s, "commit")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() }) // if it hangs
		for lines.Scan() {
			if acked, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			break
		}
		time.AfterFunc(rand.N(20*time.Millisecond), func() { cmd.Process.Kill() })
		for lines.Scan() {
			if acked, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatal(err)
		}

		head, err := s.Head()
		if err != nil || head.Branch != "main" || head.ID != id(acked) && head.ID != id(acked+1) {
			t.Fatalf("round %d: HEAD is %v, %v; update %d was acknowledged", round, head, err, acked)
		}
		refs, err := s.List("")
		if err != nil || len(refs) == 0 || len(refs) > 2 {
			t.Fatalf("round %d: refs are %v, %v", round, refs, err)
		}
		for _, log := range []string{"HEAD", "refs/heads/main"} {
			entries, err := s.Log(log)
			if err != nil {
				t.Fatalf("round %d: log of %s: %v", round, log, err)
			}
			logged := make(map[object.ID]bool)
			for _, e := range entries {
				logged[e.New] = true
			}
			for n := 1; n <= acked; n++ {
				if !logged[id(n)] {
					t.Fatalf("round %d: update %d is missing in the log of %s", round, n, log)
				}
			}
		}
		if _, err := s.Roots(ctx); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d updates", acked)
}

// raceOnce waits for the end of its input, and then tries to move HEAD's branch to the n-th ID.
func raceOnce(s *Store, n string) error {
	number, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	err = s.Update(ctx, []Change{{Name: "HEAD", Old: id(0), New: id(number), Reason: "race"}}, ann)
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, ErrMoved):
		os.Exit(3)
	}
	return err
}

// Exactly one of many processes that move a ref from the same value succeeds.
func TestProcessRace(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(0))
	start, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	var racers []*exec.Cmd
	for n := range 16 {
		cmd := child(t, s, fmt.Sprint(n+1))
		cmd.Stdin = start
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers = append(racers, cmd)
	}

	start.Close()
	release.Close()
	won := 0
	for n, cmd := range racers {
		err := cmd.Wait()
		switch {
		case err == nil:
			won = n + 1
			if got, err := s.Get(Heads + "main"); got != id(won) || err != nil {
				t.Errorf("racer %d won, but the ref is %v, %v", won, got, err)
			}
		case cmd.ProcessState.ExitCode() != 3:
			t.Errorf("racer %d: %v", n+1, err)
		}
	}

	if got := s.log(t, "HEAD"); got != fmt.Sprintf("0>%d race; ->0 test", won) {
		t.Errorf("log is %q, but racer %d won", got, won)
	}
}
