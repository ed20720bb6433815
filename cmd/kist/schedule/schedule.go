// Package schedule lets systemd or cron run 'kist backup' once a day.
//
// A line of JSON in the unit or in the crontab describes the job, so that nothing has to be
// kept elsewhere: see [Job].
package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Job is a daily backup of a repository.
type Job struct {
	Repo   string // absolute path of the folder for 'kist -C'
	Hour   int    // of the local time, 0 to 23
	Minute int

	// Jitter is the longest random delay, in whole minutes and less than a day. It
	// spreads the load of many machines that use one remote.
	Jitter time.Duration

	// Program is the absolute path of kist. Only Add uses it.
	Program string
}

// Scheduler runs jobs. It has at most one job for each repository.
type Scheduler interface {
	// Name returns "systemd" or "cron".
	Name() string

	// Unit returns the name of the systemd units of a repository's job, without a
	// suffix; "" for cron.
	Unit(repo string) string

	// Add adds a job, and replaces the one of the same repository.
	Add(ctx context.Context, j Job) error

	// List returns all jobs that Add added.
	List(ctx context.Context) ([]Job, error)

	// Remove removes the job of a repository. It reports whether there was one.
	Remove(ctx context.Context, repo string) (bool, error)
}

// mark begins the line that describes a job.
const mark = "# kist schedule "

// jobJSON is how a [Job] is written behind [mark].
type jobJSON struct {
	Repo   string `json:"repo"`
	Daily  string `json:"daily"`
	Jitter int    `json:"jitter_seconds"`
}

// Daily returns the time of day as in 02:30.
func (j Job) Daily() string { return fmt.Sprintf("%02d:%02d", j.Hour, j.Minute) }

// lineFor returns the line that describes a job, without a line break.
func (j Job) lineFor() (string, error) {
	for _, path := range []string{j.Repo, j.Program} {
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) || strings.Contains(path, mark) {
			return "", fmt.Errorf("%q cannot be scheduled: the path has characters that a crontab or a unit cannot hold", path)
		}
	}
	text, err := json.Marshal(jobJSON{j.Repo, j.Daily(), int(j.Jitter / time.Second)})
	return mark + string(text), err
}

// parseLine returns the job that a line, or the end of a line, describes.
func parseLine(line string) (j Job, ok bool) {
	_, text, ok := strings.Cut(line, mark)
	var parsed jobJSON
	if !ok || json.Unmarshal([]byte(text), &parsed) != nil {
		return Job{}, false
	}
	hour, minute, err := ParseDaily(parsed.Daily)
	if err != nil || parsed.Repo == "" {
		return Job{}, false
	}
	return Job{Repo: parsed.Repo, Hour: hour, Minute: minute, Jitter: time.Duration(parsed.Jitter) * time.Second}, true
}

// ParseDaily parses a time of day, such as 02:30.
func ParseDaily(text string) (hour, minute int, err error) {
	at, err := time.Parse("15:04", text)
	if err != nil {
		return 0, 0, errors.New("not a time of day, such as 02:30")
	}
	return at.Hour(), at.Minute(), nil
}

// run runs a program of the system with input, and returns its output. An error has the
// last line that the program wrote to standard error.
func run(ctx context.Context, input string, program string, args ...string) (string, error) {
	var out, errout bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C") // readCrontab reads a message
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errout
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(errout.String()), "\n")
		return "", fmt.Errorf("%s: %w: %s", strings.Join(append([]string{program}, args...), " "), err, lines[len(lines)-1])
	}
	return out.String(), nil
}
