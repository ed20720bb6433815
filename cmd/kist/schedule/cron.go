package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"
)

// Cron keeps jobs in the crontab of the user. Cron knows no random delay: Add chooses one
// minute within the jitter for all days.
type Cron struct{}

// HasCron reports whether there is a crontab command.
func HasCron() bool {
	_, err := exec.LookPath("crontab")
	return err == nil
}

// Name implements [Scheduler].
func (Cron) Name() string { return "cron" }

// Unit implements [Scheduler].
func (Cron) Unit(string) string { return "" }

// Add implements [Scheduler].
func (c Cron) Add(ctx context.Context, j Job) error {
	line, err := cronLine(j, rand.IntN)
	if err != nil {
		return err
	}
	table, err := readCrontab(ctx)
	if err != nil {
		return err
	}
	table, _ = withoutJob(table, j.Repo)
	if table != "" && !strings.HasSuffix(table, "\n") {
		table += "\n"
	}
	return writeCrontab(ctx, table+line+"\n")
}

// List implements [Scheduler].
func (c Cron) List(ctx context.Context) ([]Job, error) {
	table, err := readCrontab(ctx)
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for line := range strings.Lines(table) {
		if j, ok := cronJob(line); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// Remove implements [Scheduler].
func (c Cron) Remove(ctx context.Context, repo string) (bool, error) {
	table, err := readCrontab(ctx)
	if err != nil {
		return false, err
	}
	table, had := withoutJob(table, repo)
	if !had {
		return false, nil
	}
	return true, writeCrontab(ctx, table)
}

// cronLine returns the line of a job. intN returns a random number from 0 to n-1.
func cronLine(j Job, intN func(n int) int) (string, error) {
	description, err := j.lineFor()
	if err != nil {
		return "", err
	}
	at := j.Hour*60 + j.Minute + intN(int(j.Jitter/time.Minute)+1)
	at %= 24 * 60
	line := fmt.Sprintf("%d %d * * * %s -q -C %s backup %s", at%60, at/60, shellQuote(j.Program), shellQuote(j.Repo), description)
	if strings.Contains(line, "%") {
		return "", fmt.Errorf("%q cannot be scheduled: a line of a crontab cannot have %%", j.Repo)
	}
	return line, nil
}

// cronJob returns the job of a line of a crontab. A line that the user turned into a
// comment is no job.
func cronJob(line string) (Job, bool) {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return Job{}, false
	}
	return parseLine(line)
}

// withoutJob returns a crontab without the line of a repository, and whether there was one.
func withoutJob(table, repo string) (rest string, had bool) {
	var b strings.Builder
	for line := range strings.Lines(table) {
		if j, ok := cronJob(line); ok && j.Repo == repo {
			had = true
			continue
		}
		b.WriteString(line)
	}
	return b.String(), had
}

// shellQuote returns text as one word of the shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// readCrontab returns the crontab of the user, "" if there is none.
func readCrontab(ctx context.Context) (string, error) {
	table, err := run(ctx, "", "crontab", "-l")
	if err == nil {
		return table, nil
	}
	text := err.Error()
	if strings.Contains(text, "no crontab for") || strings.Contains(text, "crontab: can't open '") && strings.HasSuffix(text, "No such file or directory") { // of BusyBox
		return "", nil
	}
	return "", err
}

func writeCrontab(ctx context.Context, table string) error {
	_, err := run(ctx, table, "crontab", "-")
	return err
}
