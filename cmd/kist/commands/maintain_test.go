package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

func TestMaintenanceInTheBackground(t *testing.T) {
	env, _, stderr := testEnv(t)
	env.Now = time.Now
	vars := map[string]string{}
	env.Getenv = func(name string) string { return vars[name] }

	var started [][]string
	env.Programs.Start = func(args ...string) error {
		started = append(started, args)
		return nil
	}

	run := func(args ...string) {
		t.Helper()
		if status := cli.Run(t.Context(), env, args); status != cli.ExitOK {
			t.Fatalf("kist %q: exit status %d: %s", args, status, stderr)
		}
	}
	run("init", "-q")

	for i := range 34 {
		name := fmt.Sprint("file", i)
		if err := os.WriteFile(filepath.Join(env.Dir, name), fmt.Appendf(nil, "a text that is not inline, number %d", i), 0o644); err != nil {
			t.Fatal(err)
		}
		run("add", "-q", name)
		if i < 30 && len(started) > 0 {
			t.Fatalf("after %d adds: started %q", i+1, started)
		}
	}

	want := []string{"--repo", env.Dir, "--quiet", "gc", "--auto"}
	if len(started) == 0 || !slices.Equal(started[0], want) {
		t.Fatalf("started %q, want %q", started, want)
	}

	started = nil
	run("commit", "-q", "-m", "more")
	if len(started) != 1 {
		t.Errorf("after a commit: started %q", started)
	}

	started = nil
	vars["KIST_GC_AUTO"] = "0"
	run("commit", "-q", "--allow-empty", "-m", "more")
	delete(vars, "KIST_GC_AUTO")
	run("config", "gc.auto", "false")
	run("commit", "-q", "--allow-empty", "-m", "more")
	run("config", "--unset", "gc.auto")
	env.Programs.Start = nil
	run("commit", "-q", "--allow-empty", "-m", "more")
	if len(started) > 0 {
		t.Errorf("gc is switched off, but kist started %q", started)
	}
}

// gc --auto repacks old volumes if their size reaches gc.auto-repack.
func TestAutoRepack(t *testing.T) {
	env, _, stderr := testEnv(t)
	now := time.Now()
	env.Now = func() time.Time { return now }

	run := func(want int, args ...string) {
		t.Helper()
		if status := cli.Run(t.Context(), env, args); status != want {
			t.Fatalf("kist %q: exit status %d: %s", args, status, stderr)
		}
	}
	run(cli.ExitOK, "init", "-q")

	version := func() {
		t.Helper()
		text := fmt.Append(bytes.Repeat([]byte("a text of many lines\n"), 1000), now)
		if err := os.WriteFile(filepath.Join(env.Dir, "text"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		run(cli.ExitOK, "add", "-q", ".")
		run(cli.ExitOK, "commit", "-q", "-m", "version")
		now = now.Add(24 * time.Hour)
	}

	repacked := func() (n int) {
		t.Helper()
		r, err := env.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		infos, err := r.Objects().Volumes(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		for _, info := range infos {
			if info.Repacked {
				n++
			}
		}
		return n
	}

	version()
	version()
	now = now.Add(20 * 24 * time.Hour)
	run(cli.ExitOK, "gc", "--auto")
	if n := repacked(); n > 0 {
		t.Errorf("below the default size: %d volumes are repacked, want 0", n)
	}

	now = now.Add(20 * 24 * time.Hour)
	run(cli.ExitUsage, "config", "gc.auto-repack", "much")
	run(cli.ExitOK, "config", "gc.auto-repack", "false")
	run(cli.ExitOK, "gc", "--auto")
	if n := repacked(); n > 0 {
		t.Errorf("with gc.auto-repack false: %d volumes are repacked, want 0", n)
	}

	now = now.Add(20 * 24 * time.Hour)
	run(cli.ExitOK, "config", "gc.auto-repack", "100B")
	version()
	run(cli.ExitOK, "gc", "--auto")
	if n := repacked(); n != 1 {
		t.Errorf("above gc.auto-repack: %d volumes are repacked, want 1", n)
	}
	run(cli.ExitOK, "verify", "--read-data")
}

// After a failure of gc --auto, each command that writes prints a warning, until gc --auto
// succeeds.
func TestAutoGCFailure(t *testing.T) {
	env, _, stderr := testEnv(t)
	now := time.Now()
	env.Now = func() time.Time { return now }
	env.Programs.Start = func(...string) error { return nil }
	run := func(want int, args ...string) string {
		t.Helper()
		stderr.Reset()
		if status := cli.Run(t.Context(), env, args); status != want {
			t.Fatalf("kist %q: exit status %d: %s", args, status, stderr)
		}
		return stderr.String()
	}
	const warning = "warning: 'kist gc --auto' failed in the background: "
	write := func() string {
		t.Helper()
		return run(cli.ExitOK, "commit", "-q", "--allow-empty", "-m", "more")
	}
	run(cli.ExitOK, "init", "-q")
	write()
	now = now.Add(40 * 24 * time.Hour)

	log := filepath.Join(env.Dir, ".kist", "logs", "HEAD")
	intact, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("no log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(cli.ExitDamaged, "--quiet", "gc", "--auto")
	if err := os.WriteFile(log, intact, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if printed := write(); !strings.Contains(printed, warning) {
			t.Errorf("no warning after a failed gc: %s", printed)
		}
	}
	now = now.Add(40 * 24 * time.Hour)
	run(cli.ExitOK, "--quiet", "gc", "--auto")
	if printed := write(); printed != "" {
		t.Errorf("gc --auto succeeded, but commit prints: %s", printed)
	}
}
