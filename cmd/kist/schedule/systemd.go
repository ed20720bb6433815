package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// Systemd keeps a job as a service and a timer in a folder of units. After a boot, the
// timer makes up for a run that it missed.
type Systemd struct {
	Dir  string // holds units
	User bool   // units of the user's manager, not of the system's
}

// ForRoot returns the systemd of the system.
func ForRoot() *Systemd { return &Systemd{Dir: "/etc/systemd/system"} }

// ForUser returns the systemd of a user with a folder for configuration files, such as
// ~/.config.
func ForUser(config string) *Systemd {
	return &Systemd{Dir: filepath.Join(config, "systemd", "user"), User: true}
}

// Runs reports whether systemd runs here.
func (s *Systemd) Runs(ctx context.Context) bool {
	_, err := s.runSystemctl(ctx, "show", "--property=Version")
	return err == nil
}

// Name implements [Scheduler].
func (s *Systemd) Name() string { return "systemd" }

// Unit implements [Scheduler].
func (s *Systemd) Unit(repo string) string { return unitName(repo) }

// Lingers reports whether the user's timers run while the user is not logged in.
func (s *Systemd) Lingers(user string) bool {
	_, err := os.Stat(filepath.Join("/var/lib/systemd/linger", user))
	return !s.User || err == nil
}

// Add implements [Scheduler].
func (s *Systemd) Add(ctx context.Context, j Job) error {
	service, timer, err := s.unitTexts(j)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	for suffix, text := range map[string]string{".service": service, ".timer": timer} {
		if err := disk.WriteFile(s.unitPath(j.Repo, suffix), []byte(text)); err != nil {
			return err
		}
	}
	if _, err := s.runSystemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := s.runSystemctl(ctx, "enable", unitName(j.Repo)+".timer"); err != nil {
		return err
	}
	_, err = s.runSystemctl(ctx, "restart", unitName(j.Repo)+".timer") // takes over a changed time
	return err
}

// List implements [Scheduler].
func (s *Systemd) List(context.Context) ([]Job, error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, unitPrefix+"*.service"))
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if j, ok := parseLine(first); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// Remove implements [Scheduler].
func (s *Systemd) Remove(ctx context.Context, repo string) (bool, error) {
	if _, err := os.Stat(s.unitPath(repo, ".service")); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := s.runSystemctl(ctx, "disable", "--now", unitName(repo)+".timer"); err != nil {
		return false, err
	}
	// The service goes last: while it is there, Remove can be repeated.
	for _, suffix := range []string{".timer", ".service"} {
		if err := os.Remove(s.unitPath(repo, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	_, err := s.runSystemctl(ctx, "daemon-reload")
	return true, err
}

const unitPrefix = "kist-backup-"

// unitName returns the name of a repository's units, without a suffix.
func unitName(repo string) string {
	sum := sha256.Sum256([]byte(repo))
	return unitPrefix + hex.EncodeToString(sum[:6])
}

func (s *Systemd) unitPath(repo, suffix string) string {
	return filepath.Join(s.Dir, unitName(repo)+suffix)
}

// unitTexts returns the text of the service and of the timer, see systemd.service(5) and
// systemd.timer(5).
func (s *Systemd) unitTexts(j Job) (service, timer string, err error) {
	description, err := j.lineFor()
	if err != nil {
		return "", "", err
	}
	if strings.Contains(j.Program, "$") {
		return "", "", fmt.Errorf("%q cannot be scheduled: systemd runs no program with a $ in its path", j.Program)
	}
	title := strings.ReplaceAll(j.Repo, "%", "%%")
	service = description + "\n[Unit]\nDescription=kist backup of " + title + "\n"
	if !s.User {
		service += "Wants=network-online.target\nAfter=network-online.target\n"
	}
	service += "\n[Service]\nType=oneshot\n"
	if !s.User {
		service += "User=root\n" // sets HOME, for ~/.config and ~/.aws
	}
	service += fmt.Sprintf("ExecStart=%s -q -C %s backup\n", systemdQuote(j.Program), systemdQuote(j.Repo))

	timer = fmt.Sprintf("[Unit]\nDescription=kist backup of %s, daily\n\n[Timer]\nOnCalendar=*-*-* %s:00\n"+
		"RandomizedDelaySec=%d\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n", title, j.Daily(), int(j.Jitter/time.Second))
	return service, timer, nil
}

// systemdQuote returns text as one argument of a command line in a unit.
func systemdQuote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(text) + `"`
}

// runSystemctl runs systemctl.
func (s *Systemd) runSystemctl(ctx context.Context, args ...string) (string, error) {
	if s.User {
		args = append([]string{"--user"}, args...)
	}
	return run(ctx, "", "systemctl", args...)
}
