package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
)

// TestBackupMetrics checks the metrics of backups with the parser of Prometheus.
func TestBackupMetrics(t *testing.T) {
	t.Parallel()
	p := newPlaceInFolder(t)
	s := p.folder()
	dir := "odd \"\\\nname"
	if err := os.Mkdir(s.path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s = s.in(dir)
	s.kist("init")
	s.write(map[string]string{"a": "alpha", "b": "beta"})
	s.kist("remote", "add", "origin", p.url)

	read := func() map[string]float64 {
		t.Helper()
		data, err := os.ReadFile(s.path("../kist.prom"))
		if err != nil {
			t.Fatal(err)
		}
		var parser expfmt.TextParser
		families, err := parser.TextToMetricFamilies(strings.NewReader(string(data)))
		if err != nil {
			t.Fatalf("the metrics are invalid: %v:\n%s", err, data)
		}
		values := map[string]float64{}
		for name, family := range families {
			for _, m := range family.Metric {
				key := name
				for _, label := range m.Label {
					if label.GetName() == "repository" {
						if label.GetValue() != s.path(".") {
							t.Errorf("%s: label repository = %q, want %q", name, label.GetValue(), s.path("."))
						}
						continue
					}
					key += " " + label.GetValue()
				}
				values[key] = m.Gauge.GetValue()
			}
		}
		return values
	}

	s.backup(0, "--metrics", "../kist.prom")
	first := read()
	if first["kist_backup_files new"] != 2 || first["kist_backup_exit_status"] != 0 || first["kist_backup_bytes sent"] == 0 ||
		first["kist_backup_remote_commit_timestamp_seconds"] == 0 {
		t.Errorf("metrics of the first backup: %v", first)
	}
	success := first["kist_backup_last_success_timestamp_seconds"]
	if run := first["kist_backup_last_run_timestamp_seconds"]; success < run || run == 0 {
		t.Errorf("last success at %v, want not before the last run at %v", success, run)
	}

	if err := os.Rename(p.url, p.url+"-away"); err != nil {
		t.Fatal(err)
	}
	s.backup(15, "--metrics", "../kist.prom")
	if err := os.Rename(p.url+"-away", p.url); err != nil {
		t.Fatal(err)
	}
	failed := read()
	if failed["kist_backup_exit_status"] != 15 || failed["kist_backup_files unmodified"] != 2 || failed["kist_backup_last_success_timestamp_seconds"] != success {
		t.Errorf("metrics of a failed backup: %v, want exit status 15 and the last success at %v", failed, success)
	}
}

// TestBackupPing checks that backups send their summary to a monitor, and retry a refused request.
func TestBackupPing(t *testing.T) {
	t.Parallel()
	var got []string
	refuse := 1 // the number of requests to refuse
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var summary backedUp
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &summary)
		}
		if err != nil || (summary.Exit == 0) == strings.HasSuffix(r.URL.Path, "/fail") {
			t.Errorf("request %s: body %s, error %v", r.URL.Path, body, err)
		}
		got = append(got, r.URL.String())
	}))
	defer monitor.Close()

	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"a": "alpha"})
	s.backup(0, "--ping", monitor.URL+"/secret?x=1")
	s.backup(1, "--ping", monitor.URL+"/secret?x=1", "--before", "exit 3")
	if want := "/secret?x=1 /secret/fail?x=1"; strings.Join(got, " ") != want {
		t.Errorf("requests %q, want %q", got, want)
	}

	monitor.Close()
	o := s.exits(0, "backup", "--ping", monitor.URL+"/secret")
	if !strings.Contains(o.stderr, "warning: ping: ") || strings.Contains(o.stderr, "/secret") {
		t.Errorf("want a warning about the ping, without its secret path: %v", o)
	}
}

// A ping stays on the host that the user chose.
func TestPingRedirects(t *testing.T) {
	var elsewhere, here []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Method+" "+r.URL.Path+" "+r.Referer())
	}))
	defer other.Close()
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here = append(here, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/secret", http.StatusPermanentRedirect)
		case "/elsewhere":
			http.Redirect(w, r, other.URL+"/elsewhere", http.StatusTemporaryRedirect)
		}
	}))
	defer monitor.Close()

	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"a": "alpha"})
	s.backup(0, "--ping", monitor.URL+"/moved")
	if want := "POST /moved POST /secret"; strings.Join(here, " ") != want {
		t.Errorf("requests %q, want %q", here, want)
	}

	o := s.exits(0, "backup", "--ping", monitor.URL+"/elsewhere")
	if !strings.Contains(o.stderr, "warning: ping: the answer redirects to "+strconv.Quote(strings.TrimPrefix(other.URL, "http://"))) || strings.Contains(o.stderr, "/elsewhere") {
		t.Errorf("want a warning about the redirect, without its path: %v", o)
	}
	if len(elsewhere) > 0 {
		t.Errorf("another host received %q", elsewhere)
	}
}

// TestBackupHookInterrupted checks that SIGTERM ends a hook that hangs, and with it the backup.
// The hooks after it still run.
func TestBackupHookInterrupted(t *testing.T) {
	t.Parallel()
	for _, hanging := range []string{"--before", "--on-success", "--after"} {
		s := newPlaceInFolder(t).folder()
		s.kist("init")
		s.write(map[string]string{"a": "alpha"})
		if err := syscall.Mkfifo(s.path(".kist/begun"), 0o600); err != nil {
			t.Fatal(err)
		}

		args := []string{"backup", hanging, "echo >.kist/begun; exec sleep 1000"}
		if hanging != "--after" {
			args = append(args, "--after", "echo >.kist/after")
		}
		p := s.start(args...)
		if _, err := os.ReadFile(s.path(".kist/begun")); err != nil { // returns when the hook runs
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}

		if o := p.wait(); o.status != 130 {
			t.Errorf("%s: want exit status 130: %v", hanging, o)
		}
		if _, err := os.Stat(s.path(".kist/after")); err != nil && hanging != "--after" {
			t.Errorf("%s: the last hook did not run: %v", hanging, err)
		}
	}
}
