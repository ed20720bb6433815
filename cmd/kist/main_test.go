package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands"
	"github.com/kist-vcs/kist/object/objecttest"
)

// nobody is a user that owns only the files that tests give to it.
const nobody = 65534

// littleMemory is the number of bytes of memory that kist-in-little-memory can allocate
// before it crashes. There is no limit under the race detector, which needs more.
const littleMemory = 384 << 20

// TestMain lets the tests run kist in processes of their own, too. The test binary is kist
// if it is called by that name.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "kist":
		status := run()
		notePeak()
		os.Exit(status)

	case "kist-as-nobody":
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
		}
		main()

	case "kist-in-little-memory":
		if !raceDetector {
			if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: littleMemory, Max: littleMemory}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
		}
		main()

	default:
		time.Local = time.UTC   // as in a process with the variables of a shell
		debug.SetGCPercent(400) // saves time, because commands leave little in memory
		testProcess = cli.OSEnv()
		testProcess.Commands = commands.All
		os.Exit(withoutSchedulers(m.Run))
	}
}

// withoutSchedulers runs the tests with a systemctl and a crontab that fail, so that no
// test schedules a backup on this machine.
func withoutSchedulers(run func() int) int {
	dir, err := os.MkdirTemp("", "schedulers")
	for _, name := range []string{"systemctl", "crontab"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return run()
}

// commandTime is the time after which a command counts as hanging. It is far more than
// any command takes on a slow machine.
const commandTime = 2 * time.Minute

// shell runs a program in a folder.
type shell struct {
	testing.TB
	dir     string
	program string   // one of the names in TestMain
	env     []string // variables beside the ones of every test
	apart   bool     // whether each command is a process
	hasty   bool     // whether commands in the process of the test retry without waiting
	patient bool     // whether here waits, too: a loaded server needs time
	owners  []int    // users whose repositories these commands trust; nil: the user of the test
}

// newShell returns a shell in a new folder.
func newShell(t testing.TB) *shell {
	s := (&shell{TB: t, dir: tempDir(t), program: "kist"}).in("folder")
	if err := os.Mkdir(s.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return s
}

// tempDir returns a new folder. It is in memory if 4 GiB are free and TMPDIR is not set.
// These tests kill processes but do not cut the power, and would mostly wait for a disk.
func tempDir(t testing.TB) string {
	const memory = "/dev/shm"
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &st) != nil || int64(st.Bavail)*int64(st.Bsize) < 4<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "kist-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { removeAll(t, dir) })
	return dir
}

// in returns a shell in another folder, relative to this one's.
func (s *shell) in(dir string) *shell {
	other := *s
	other.dir = s.path(dir)
	return &other
}

// path returns the path of a file, whose name is absolute or relative to the folder.
func (s *shell) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// variables returns the environment variables of a command.
func (s *shell) variables() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TZ=UTC", "LC_ALL=C", "NO_COLOR=1",
		"KIST_AUTHOR_NAME=Anna Chest", "KIST_AUTHOR_EMAIL=anna@chest.example",
		"KIST_GC_AUTO=0", // no gc in the background
		"GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"), // saves a second per command
	}, s.env...)
}

// command returns a process that runs kist.
func (s *shell) command(ctx context.Context, args ...string) *exec.Cmd {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{s.program}, args...)
	cmd.Dir = s.dir
	cmd.Env = s.variables()
	// A command that hangs prints its stacks.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	peak, err := os.CreateTemp("", "kist-peak-")
	if err != nil {
		s.Fatal(err)
	}
	peak.Close()
	s.Cleanup(func() { os.Remove(peak.Name()) })
	cmd.Env = append(cmd.Env, peakVariable+"="+peak.Name())
	return cmd
}

// peakVariable names a file that kist writes its peak memory to. The kernel's figure for
// a child is useless, because it includes the memory of the parent at the fork.
const peakVariable = "KIST_TEST_PEAK"

// notePeak writes the peak memory of this process to the file of peakVariable, in KiB.
func notePeak() {
	path := os.Getenv(peakVariable)
	status, err := os.ReadFile("/proc/self/status")
	if path == "" || err != nil {
		return
	}
	if _, peak, ok := strings.Cut(string(status), "\nVmHWM:"); ok {
		peak, _, _ = strings.Cut(peak, "kB")
		os.WriteFile(path, []byte(strings.TrimSpace(peak)), 0o600)
	}
}

// readPeak returns the peak memory of an ended process, in bytes. It returns 0 if the
// process was killed.
func readPeak(cmd *exec.Cmd) int64 {
	for _, setting := range cmd.Env {
		if path, ok := strings.CutPrefix(setting, peakVariable+"="); ok {
			data, _ := os.ReadFile(path)
			kib, _ := strconv.ParseInt(string(data), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// outcome is the result of a command.
type outcome struct {
	args           []string
	status         int // -1: ended by a signal
	stdout, stderr string
	memory         int64 // the peak, in bytes
}

// outcomeOf returns the outcome of an ended process.
func outcomeOf(cmd *exec.Cmd, args []string, stdout, stderr *bytes.Buffer) outcome {
	return outcome{args: args, status: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), memory: readPeak(cmd)}
}

func (o outcome) String() string {
	return fmt.Sprintf("kist %s: exit status %d\n%s%s", strings.Join(o.args, " "), o.status, shorten(o.stdout), shorten(o.stderr))
}

func shorten(text string) string {
	const most = 4000
	if len(text) > most {
		return text[:most/2] + "\n[...]\n" + text[len(text)-most/2:]
	}
	return text
}

// runProcess runs kist in a process. A command that crashes or hangs fails the test.
func (s *shell) runProcess(args ...string) outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := s.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	o := outcomeOf(cmd, args, &stdout, &stderr)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		s.Fatalf("hangs: %v", o)
	case err != nil && !errors.As(err, &exit):
		s.Fatalf("kist %q: %v", args, err)
	}
	s.wantNoCrash(o)
	return o
}

// wantNoCrash fails the test if the Go runtime or a signal ended a command.
func (s *shell) wantNoCrash(o outcome) {
	s.Helper()
	for _, sign := range []string{"panic: ", "fatal error: ", "goroutine ", "unexpected fault", "SIGBUS"} {
		if strings.Contains(o.stderr, sign) {
			s.Fatalf("crashed: %v", o)
		}
	}
	if o.status == -1 {
		s.Fatalf("ended by a signal: %v", o)
	}
}

// exits runs kist and wants an exit status.
func (s *shell) exits(status int, args ...string) outcome {
	s.Helper()
	o := s.run(args...)
	if o.status != status {
		s.Fatalf("want exit status %d: %v", status, o)
	}
	return o
}

// kist runs kist, which must succeed, and returns its standard output.
func (s *shell) kist(args ...string) string {
	s.Helper()
	return s.exits(0, args...).stdout
}

// trust makes the shell trust the repositories of all users.
func (s *shell) trust() {
	s.Helper()
	config := s.TempDir()
	if err := os.Chmod(filepath.Dir(config), 0o755); err != nil { // another user reads it, too
		s.Fatal(err)
	}
	s.in(config).write(map[string]string{"kist/config": "[safe]\ndirectory = [\"*\"]\n"})
	s.env = append(s.env, "XDG_CONFIG_HOME="+config)
}

// verify fails the test if any byte of the repository is damaged.
func (s *shell) verify() {
	s.Helper()
	s.kist("verify", "--read-data")
}

// write writes files, and makes their folders.
func (s *shell) write(files map[string]string) {
	s.Helper()
	for name, content := range files {
		path := s.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			s.Fatal(err)
		}
	}
}

// needsRoot skips a test that only root can run.
func needsRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		objecttest.Skip(t, "this test needs root")
	}
}
