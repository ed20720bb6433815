package schedule

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// install makes a shell script that PATH finds before all other programs.
func install(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return path
}

// names are folders with characters that are special for a shell, cron or systemd.
var names = []string{"/srv", "/with space", `/it's "quoted" \n`, "/$HOME/`id`/$(id)/*?~", "/# kist", "/ünï", "/a;b|c&d<e>f"}

// The command of a cron line gives kist the exact path when a shell runs it. A path that cron
// cannot express is refused.
func TestCronLine(t *testing.T) {
	program := install(t, t.TempDir(), "kist's", `printf "[%s]\n" "$@"`)
	for _, repo := range names {
		job := Job{Repo: repo, Hour: 23, Minute: 50, Jitter: 15 * time.Minute, Program: program}
		line, err := cronLine(job, func(n int) int { return n - 1 })
		if err != nil {
			t.Fatal(err)
		}
		command, ok := strings.CutPrefix(line, "5 0 * * * ")
		if !ok {
			t.Errorf("line %s: want five past midnight", line)
		}

		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if want := fmt.Sprintf("[-q]\n[-C]\n[%s]\n[backup]\n", repo); string(out) != want || err != nil {
			t.Errorf("%s\n%s, %v\nwant %s", line, out, err, want)
		}

		job.Program = ""
		if got, ok := cronJob(line + "\n"); !ok || got != job {
			t.Errorf("%s: read as %v", line, got)
		}
		if _, ok := cronJob("#" + line); ok {
			t.Errorf("#%s: read as a job", line)
		}
	}

	for _, repo := range []string{"/100%", "/two\nlines", "/\xff", "/x# kist schedule {}"} {
		if line, err := cronLine(Job{Repo: repo, Program: program}, func(int) int { return 0 }); err == nil {
			t.Errorf("%q is scheduled: %s", repo, line)
		}
	}
}

// TestSchedulers adds, replaces and removes jobs.
func TestSchedulers(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "table")
	install(t, dir, "crontab", `case $1 in
-l) cat `+table+` 2>/dev/null || { echo "no crontab for you" >&2; exit 1; } ;;
*) cat >`+table+`;; esac
`)
	install(t, dir, "systemctl", "exit 0\n")
	units := filepath.Join(dir, "config", "systemd", "user")

	for _, s := range []Scheduler{Cron{}, ForUser(filepath.Join(dir, "config"))} {
		t.Run(s.Name(), func(t *testing.T) {
			want := func(want ...Job) {
				t.Helper()
				got, err := s.List(t.Context())
				if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || err != nil {
					t.Errorf("jobs %v, want %v; %v", got, want, err)
				}
			}
			add := func(j Job) Job {
				t.Helper()
				j.Program = "/usr/bin/kist"
				if err := s.Add(t.Context(), j); err != nil {
					t.Fatal(err)
				}
				j.Program = ""
				return j
			}
			want()
			a := add(Job{Repo: "/a", Hour: 2, Minute: 30, Jitter: 90 * time.Minute})
			want(a)
			b := add(Job{Repo: `/b "b"`})
			a = add(Job{Repo: "/a", Hour: 4})
			if jobs, err := s.List(t.Context()); len(jobs) != 2 || err != nil {
				t.Error(jobs, err)
			}
			if had, err := s.Remove(t.Context(), b.Repo); !had || err != nil {
				t.Error(had, err)
			}
			if had, err := s.Remove(t.Context(), b.Repo); had || err != nil {
				t.Error(had, err)
			}
			want(a)
			if had, err := s.Remove(t.Context(), "/a"); !had || err != nil {
				t.Error(had, err)
			}
			want()
		})
	}
	if left, err := os.ReadDir(units); len(left) > 0 || err != nil {
		t.Errorf("left in the folder of units: %v, %v", left, err)
	}
}

// The other lines of a crontab stay. A crontab that cannot be read stays unchanged.
func TestCrontabKept(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "table")
	const others = "# my own\nMAILTO=me\n1 2 * * * true\n#3 3 * * * kist # kist schedule {\"repo\":\"/a\",\"daily\":\"03:03\"}\nno line break"
	if err := os.WriteFile(table, []byte(others), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, dir, "crontab", `[ -e `+dir+`/broken ] && { echo broken >&2; exit 1; }
case $1 in -l) cat `+table+`;; *) cat >`+table+`;; esac
`)
	if err := (Cron{}).Add(t.Context(), Job{Repo: "/a", Program: "/kist"}); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(table)
	if rest, ok := strings.CutPrefix(string(got), others+"\n0 0 * * * '/kist' -q -C '/a' backup # kist schedule "); !ok || strings.Count(rest, "\n") != 1 {
		t.Errorf("crontab:\n%s", got)
	}
	if _, err := (Cron{}).Remove(t.Context(), "/a"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(table); string(got) != others+"\n" {
		t.Errorf("crontab:\n%s", got)
	}

	install(t, dir, "broken", "")
	if err := (Cron{}).Add(t.Context(), Job{Repo: "/a", Program: "/kist"}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("add to an unreadable crontab: %v, want its error", err)
	}
	if got, _ := os.ReadFile(table); string(got) != others+"\n" {
		t.Errorf("crontab:\n%s", got)
	}
}

// TestUnits compares units with the form in systemd's manual pages.
func TestUnits(t *testing.T) {
	job := Job{Repo: `/a "b" 50% $x \`, Hour: 2, Minute: 5, Jitter: time.Minute, Program: "/opt/kist 1%"}
	service, timer, err := ForRoot().unitTexts(job)
	if err != nil {
		t.Fatal(err)
	}
	wantService := `# kist schedule {"repo":"/a \"b\" 50% $x \\","daily":"02:05","jitter_seconds":60}
[Unit]
Description=kist backup of /a "b" 50%% $x \
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User=root
ExecStart="/opt/kist 1%%" -q -C "/a \"b\" 50%% $$x \\" backup
`
	wantTimer := `[Unit]
Description=kist backup of /a "b" 50%% $x \, daily

[Timer]
OnCalendar=*-*-* 02:05:00
RandomizedDelaySec=60
Persistent=true

[Install]
WantedBy=timers.target
`
	if service != wantService {
		t.Errorf("service:\n%s", service)
	}
	if timer != wantTimer {
		t.Errorf("timer:\n%s", timer)
	}
	if service, _, _ := ForUser("").unitTexts(job); strings.Contains(service, "root") || strings.Contains(service, "network") {
		t.Errorf("the service of a user names root or the network:\n%s", service)
	}
}
