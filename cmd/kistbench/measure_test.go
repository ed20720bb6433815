package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(starterVariable) != "" {
		os.Exit(starter(os.Args[1:]))
	}
	if delay := os.Getenv(delayVariable); delay != "" {
		os.Exit(delayed(delay, os.Args[1:]))
	}
	status := m.Run()
	if program, err := buildKist(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(status)
}

func newTestRunner(t *testing.T) *runner {
	r, err := newRunner(t.TempDir())
	check(t, err)
	return r
}

func TestRun(t *testing.T) {
	r := newTestRunner(t)
	// A shell variable of 64 MiB, and some work.
	s, err := r.run(t.Context(), command{args: []string{"sh", "-c", `x=$(head -c 67108864 /dev/zero | tr '\0' x); test ${#x} = 67108864`}})
	check(t, err)
	if s.Seconds <= 0 || s.cpu() <= 0 || s.Peak < 64*mib || s.Peak > 2048*mib {
		t.Errorf("%+v", s)
	}
	again, err := r.run(t.Context(), command{args: []string{"true"}})
	check(t, err)
	if again.Peak > 32*mib {
		t.Errorf("true has a peak of %s: is it the peak of this process?", byteSize(again.Peak))
	}
}

func TestRunFails(t *testing.T) {
	r := newTestRunner(t)
	_, err := r.run(t.Context(), command{args: []string{"sh", "-c", "echo nothing there >&2; exit 3"}})
	var failed *CommandError
	if !errors.As(err, &failed) || failed.Status != 3 || strings.TrimSpace(failed.Stderr) != "nothing there" {
		t.Errorf("error %v", err)
	}
	if _, err := r.run(t.Context(), command{args: []string{"sh", "-c", "exit 3"}, allowed: 3}); err != nil {
		t.Errorf("an allowed status: %v", err)
	}
	if _, err := r.run(t.Context(), command{args: []string{"/nonexistent/program"}}); err == nil {
		t.Error("no error for a missing program")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.run(ctx, command{args: []string{"sleep", "60"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled run: %v", err)
	}
}

func TestRunHasItsOwnEnvironment(t *testing.T) {
	t.Setenv("RESTIC_REPOSITORY", "elsewhere")
	r := newTestRunner(t)
	out, err := r.output(t.Context(), command{args: []string{"env"}, env: []string{"EXTRA=1"}})
	check(t, err)
	if home, _ := os.UserHomeDir(); strings.Contains(string(out), "RESTIC_REPOSITORY") || strings.Contains(string(out), "HOME="+home+"\n") {
		t.Errorf("the environment has settings of the user:\n%s", out)
	}
	if !strings.Contains(string(out), "EXTRA=1") {
		t.Errorf("no EXTRA in\n%s", out)
	}
}

// run waits for the processes that outlive their command, and counts them apart.
func TestRunWaitsForTheBackground(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only Linux can wait for them
	}
	r, dir := newTestRunner(t), t.TempDir()
	s, err := r.run(t.Context(), command{dir: dir, args: []string{"sh", "-c",
		`(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; touch done) >/dev/null 2>&1 &`}})
	check(t, err)
	if _, err := os.Stat(dir + "/done"); err != nil {
		t.Errorf("run returned before the background process ended: %v", err)
	}
	if s.Background <= 0 {
		t.Errorf("the background process was not counted: %+v", s)
	}
}
