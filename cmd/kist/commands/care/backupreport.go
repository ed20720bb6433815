package care

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/object"
)

// reports are the options that run commands around a backup, and that report its end to
// monitors. A configuration may set them only if the user trusts it: they run programs,
// write any file and send requests.
type reports struct {
	before, after, onSuccess, onFailure string

	metrics string // a file
	ping    string // a URL
}

func (o *reports) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.before, "before", "", "run the shell's `COMMAND` first; if it fails, so does the backup")
	flags.StringVar(&o.after, "after", "", "run `COMMAND` at the end")
	flags.StringVar(&o.onSuccess, "on-success", "", "run `COMMAND` if the exit status is 0")
	flags.StringVar(&o.onFailure, "on-failure", "", "run `COMMAND` if the exit status is not 0")
	flags.StringVar(&o.metrics, "metrics", "", "write `FILE` for the textfile collector of Prometheus")
	flags.StringVar(&o.ping, "ping", "", "send the summary to `URL` on success, to URL/fail otherwise")
}

// checkTrust refuses a key of the configuration that [kist.ConfigKey.Trusted] marks,
// unless the user trusts the repository with it.
func checkTrust(env *cli.Env, r *kist.Repository, key string) error {
	if cli.Trusts(env.User.Values(kist.KeySafeHooks), r.Home()) {
		return nil
	}
	return cli.Hintf(cli.Failf(cli.ExitFailed, "untrusted", "the configuration of this repository sets %s, which can do anything in your name", key),
		"if you trust it: kist config --global --add %s %s", kist.KeySafeHooks, cli.ShellWord(r.Home()))
}

// runHook is a step that runs a command of the shell in the repository's folder. The summary
// so far is its standard input. Its output goes to standard error.
func (b *backupCommand) runHook(ctx context.Context, name, command string) bool {
	if command == "" {
		return true
	}
	return b.ownStep(ctx, name, func() error {
		summary, err := json.Marshal(&b.summary)
		if err != nil {
			return err
		}
		cmd := cli.NewShell(ctx, b.env, command)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.repo.Home(), bytes.NewReader(append(summary, '\n')), b.env.Stderr, b.env.Stderr
		cmd.WaitDelay = stopTime
		err = cmd.Run()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("command %s: %w", cli.QuoteArg(command), err)
		}
		return nil
	})
}

// pastInterrupt returns a context for a part of the report. It goes on if an interrupt came
// before. An interrupt from now on ends it, so that no hook hangs for ever.
func pastInterrupt(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// reportEnd runs the hooks at the end of a backup, notes its success, and informs monitors.
// It does so even after an interrupt, which only ends the hook that runs.
func (b *backupCommand) reportEnd(ctx context.Context) {
	if b.summary.Exit == cli.ExitOK {
		b.runHook(pastInterrupt(ctx), "on-success", b.onSuccess)
	} else {
		b.runHook(pastInterrupt(ctx), "on-failure", b.onFailure)
	}
	b.runHook(pastInterrupt(ctx), "after", b.after)

	s := &b.summary
	if s.Exit == cli.ExitOK && s.Commit != nil {
		if err := backup.NoteSuccess(b.repo, b.remoteName(), *s.Commit); err != nil {
			b.env.Warn("the time of this backup could not be noted: %v", err)
		}
	}
	if b.metrics != "" {
		on := context.WithoutCancel(ctx)
		b.ownStep(on, "metrics", func() error {
			return cli.WriteOutput(b.env.Path(b.metrics), func(w io.Writer) error {
				_, err := w.Write(b.metricsFile(on))
				return err
			})
		})
	}
	if b.ping != "" {
		b.sendPing(pastInterrupt(ctx))
	}
}

// metricsFile returns the metrics of the backup in the text format of Prometheus.
func (b *backupCommand) metricsFile(ctx context.Context) []byte {
	var out bytes.Buffer
	label := func(name, value string) string { return name + "=" + readable.QuoteLabel(value) }
	repository := label("repository", b.repo.Home())
	begin := func(name, help string) { fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	gauge := func(name, help string, value float64) {
		begin(name, help)
		fmt.Fprintf(&out, "%s{%s} %.9g\n", name, repository, value)
	}
	kinds := func(name, help, kind string, values map[string]int64) {
		begin(name, help)
		for _, k := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&out, "%s{%s,%s} %d\n", name, repository, label(kind, k), values[k])
		}
	}
	timestamp := func(name, help string, at time.Time) {
		if !at.IsZero() {
			begin(name, help)
			fmt.Fprintf(&out, "%s{%s} %d\n", name, repository, at.Unix())
		}
	}

	s := &b.summary
	timestamp("kist_backup_last_run_timestamp_seconds", "When the last backup began.", s.Start)
	_, last := backup.LastSuccess(b.repo, b.remoteName())
	timestamp("kist_backup_last_success_timestamp_seconds", "When the last complete backup ended.", last)
	if s.RemoteHead != nil {
		if c, err := object.ReadCommit(ctx, b.repo.Objects(), *s.RemoteHead); err == nil {
			timestamp("kist_backup_remote_commit_timestamp_seconds", "The time of the newest commit on the remote.", c.Committer.When())
		}
	}
	gauge("kist_backup_duration_seconds", "How long the last backup took.", s.Seconds)
	gauge("kist_backup_exit_status", "The exit status of the last backup: 0 is complete, 3 has skipped files.", float64(s.Exit))
	kinds("kist_backup_files", "Files of the last backup.", "state", map[string]int64{
		"new": int64(s.Files.New), "changed": int64(s.Files.Changed), "unmodified": int64(s.Files.Unmodified),
		"removed": int64(s.Files.Removed), "skipped": int64(len(s.Files.Skipped)),
	})
	kinds("kist_backup_bytes", "Bytes of the last backup.", "kind", map[string]int64{
		"read": int64(s.Read), "new": int64(s.New), "stored": int64(s.Stored), "sent": s.Sent,
	})
	return out.Bytes()
}

// Limits of a ping.
const (
	pingTries   = 3
	pingTimeout = 10 * time.Second
	pingPause   = time.Second

	maxRedirects = 5
)

// sendPing sends the summary to a monitor. A failure is only a warning.
func (b *backupCommand) sendPing(ctx context.Context) {
	b.env.Secrets.Add(b.ping)
	at, err := url.Parse(b.ping)
	if err == nil && (at.Scheme != "http" && at.Scheme != "https" || at.Host == "") {
		err = errors.New("not a URL that begins with http:// or https://")
	}
	var summary []byte
	if err == nil {
		summary, err = json.Marshal(&b.summary)
	}
	if err == nil {
		if b.summary.Exit != cli.ExitOK {
			at = at.JoinPath("fail")
		}
		for try := 1; ; try++ {
			err = post(ctx, at.String(), summary)
			if leaves := (*otherHostError)(nil); err == nil || try == pingTries || ctx.Err() != nil || errors.As(err, &leaves) {
				break
			}
			time.Sleep(pingPause)
		}
	}
	if err != nil {
		b.env.Warn("ping: %s", b.env.Secrets.Hide(err.Error()))
	}
}

// post sends a JSON object to a URL.
func post(ctx context.Context, to string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kist")
	answer, err := pingClient.Do(req)
	if leaves := (*otherHostError)(nil); errors.As(err, &leaves) {
		return leaves // without the whole URL there, which may repeat a secret
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return errors.New(answer.Status)
	}
	return nil
}

// pingClient sends pings. The summary, and a URL that may be a secret, stay with the host that
// the user chose.
var pingClient = &http.Client{CheckRedirect: stayOnHost}

// otherHostError is the error for a redirect to another host.
type otherHostError struct{ host string }

func (e *otherHostError) Error() string {
	return fmt.Sprintf("the answer redirects to %s, and kist does not follow it to another host", cli.QuoteArg(e.host))
}

// stayOnHost follows a redirect on the same host and port, and one to HTTPS on the same host.
func stayOnHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	same := req.URL.Scheme == first.Scheme && req.URL.Host == first.Host
	if !same && (req.URL.Scheme != "https" || req.URL.Hostname() != first.Hostname()) {
		return &otherHostError{req.URL.Host}
	}
	if len(via) >= maxRedirects {
		return errors.New("the answers redirect in a circle")
	}
	return nil
}
