package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// starterVariable is the environment variable that makes this program call starter.
const starterVariable = "KISTBENCH_STARTER"

// Sample is the cost of one run of a piece of work. If the work is several commands, times are
// sums, and the peak memory is the highest one.
type Sample struct {
	Round   int     `json:"round"`
	Step    int     `json:"step,omitempty"` // of work with steps, such as releases, from 1
	Seconds float64 `json:"seconds"`        // from the start of the first command to the end of the last
	User    float64 `json:"user_seconds"`   // processor time, with the child processes of the commands
	System  float64 `json:"system_seconds"`
	// Background is the processor time of the processes that outlived their command. They end
	// before the next command starts.
	Background float64 `json:"background_seconds,omitempty"`
	Peak       int64   `json:"peak_bytes"` // resident memory of the largest process
	// Stored is the size of the repository afterwards: on disk the blocks of its files, on a
	// server the sizes of its objects.
	Stored   int64 `json:"stored_bytes,omitempty"`
	Sent     int64 `json:"sent_bytes,omitempty"`     // to the server, with headers
	Received int64 `json:"received_bytes,omitempty"` // from the server, with headers
	Requests int64 `json:"requests,omitempty"`       // to the server
}

// cpu returns the processor time of the commands, in seconds.
func (s Sample) cpu() float64 { return s.User + s.System }

// and returns the sample of s and next as one piece of work.
func (s Sample) and(next Sample) Sample {
	s.Seconds += next.Seconds
	s.User += next.User
	s.System += next.System
	s.Background += next.Background
	s.Peak = max(s.Peak, next.Peak)
	return s
}

// command is a program to run.
type command struct {
	dir     string
	args    []string // the program first
	env     []string // beside the runner's
	allowed int      // an exit status that also means success
}

// CommandError is the error of a command that failed.
type CommandError struct {
	Args   []string
	Status int    // the exit status; -1 after a signal
	Stderr string // the end of its error output
}

func (e *CommandError) Error() string {
	output := strings.TrimSpace(e.Stderr)
	if output != "" {
		output = ": " + output
	}
	return fmt.Sprintf("%s: exit status %d%s", strings.Join(append([]string{filepath.Base(e.Args[0])}, e.Args[1:]...), " "), e.Status, output)
}

// runner runs commands in an environment without the settings of the user.
type runner struct {
	env []string
}

// newRunner returns a runner whose commands have their home folder and temporary files in dir.
func newRunner(dir string) (*runner, error) {
	home, temporary := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	for _, d := range []string{home, temporary} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	env := []string{"HOME=" + home, "TMPDIR=" + temporary, "TZ=UTC", "LC_ALL=C.UTF-8"}
	for _, name := range []string{"PATH", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return &runner{env}, nil
}

// run runs commands one after the other, and returns their sample.
func (r *runner) run(ctx context.Context, commands ...command) (Sample, error) {
	var total Sample
	for _, c := range commands {
		s, err := r.runOne(ctx, c)
		if err != nil {
			return Sample{}, err
		}
		total = total.and(s)
	}
	return total, nil
}

func (r *runner) runOne(ctx context.Context, c command) (Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return Sample{}, err
	}
	results, out, err := os.Pipe()
	if err != nil {
		return Sample{}, err
	}
	defer results.Close()
	var stderr tail
	cmd := exec.CommandContext(ctx, self, c.args...)
	cmd.Dir, cmd.Stderr, cmd.ExtraFiles = c.dir, &stderr, []*os.File{out}
	cmd.Env = append(append(append([]string{}, r.env...), c.env...), starterVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	out.Close()
	if err != nil {
		return Sample{}, err
	}
	var got started
	decodeErr := json.NewDecoder(results).Decode(&got)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Sample{}, ctx.Err()
	case decodeErr != nil:
		return Sample{}, fmt.Errorf("%s was not measured: %w: %s", c.args[0], errors.Join(decodeErr, err), stderr.String())
	case got.Status != 0 && got.Status != c.allowed:
		return Sample{}, &CommandError{Args: c.args, Status: got.Status, Stderr: stderr.String()}
	}
	return got.Sample, nil
}

// output runs a command without measuring it, and returns its standard output.
func (r *runner) output(ctx context.Context, c command) ([]byte, error) {
	out, err := r.prepare(ctx, c).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = &CommandError{Args: c.args, Status: failed.ExitCode(), Stderr: string(failed.Stderr)}
	}
	return out, err
}

// prepare returns a command in the environment of the runner.
func (r *runner) prepare(ctx context.Context, c command) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(append([]string{}, r.env...), c.env...)
	return cmd
}

// started is the result of starter.
type started struct {
	Sample Sample
	Status int
}

// starter runs a program, waits for it and for the processes that outlive it, and writes the
// result to file 3. It is a separate process because of the peak memory: Linux gives a new
// process the peak of its parent. The starter's peak is low.
func starter(args []string) int {
	results := os.NewFile(3, "results")
	syscall.CloseOnExec(3)
	os.Unsetenv(starterVariable)
	adopt()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	s := Sample{
		Seconds: took.Seconds(), User: cmd.ProcessState.UserTime().Seconds(), System: cmd.ProcessState.SystemTime().Seconds(),
		Peak: int64(usage.Maxrss), Background: waitAdopted().Seconds(),
	}
	if runtime.GOOS != "darwin" {
		s.Peak *= 1024
	}
	if err := json.NewEncoder(results).Encode(started{s, cmd.ProcessState.ExitCode()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// tail keeps the last bytes written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.Buffer.Write(p)
	if extra := t.Len() - most; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}
