package cli

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/remote/exchange"
)

// Maintain starts 'kist gc --auto' in the background if the store needs it, and gc.auto is
// not false. Commands that write call it at their end. It warns if the last 'kist gc
// --auto' failed.
func (e *Env) Maintain(r *kist.Repository) {
	gc.KeepReserve(e.Cmd.Context(), r)
	if !AutoMaintains(e, r) {
		return
	}
	if failed := gc.AutoFailure(r); failed != "" {
		e.Warn("'kist gc --auto' failed in the background: %s", failed)
		e.Info("hint: 'kist gc' shows the error; the warning ends when it succeeds")
	}
	if e.Programs.Start == nil || !r.Objects().NeedsMaintenance() && !gc.IsDue(r) && !exchange.IsAwayDue(e.Cmd.Context(), r) {
		return
	}
	e.Verbose("maintaining the repository in the background")
	if err := e.Programs.Start("--repo", r.Home(), "--quiet", "gc", "--auto"); err != nil {
		e.Warn("'kist gc --auto' did not start: %v", err)
	}
}

// AutoMaintains reports whether commands maintain the repository by themselves.
func AutoMaintains(env *Env, r *kist.Repository) bool {
	auto, _ := r.Config().Get("gc.auto")
	return auto != "false" && env.Getenv("KIST_GC_AUTO") != "0"
}

// startDetached starts this program with args, and does not wait for it. The new process
// outlives this process and its terminal.
func startDetached(args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = "/", withoutProfile(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// FreesSpace returns a run for a command that frees space. On a full disk, it uses the reserve.
func FreesSpace[F func(context.Context, *Env, *kist.Repository, []string) error](run F) F {
	return func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return gc.WithReserve(ctx, r, func() error { return run(ctx, env, r, args) })
	}
}
