package cli

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
)

// maintain starts 'kist gc --auto' in the background if the store needs it, and gc.auto is
// not false. Commands that write call it at their end. It warns if the last 'kist gc
// --auto' failed.
func (e *Env) maintain(r *kist.Repository) {
	gc.KeepReserve(e.cmd.Context(), r)
	if !autoMaintains(e, r) {
		return
	}
	if failed := gc.AutoFailure(r); failed != "" {
		e.warn("'kist gc --auto' failed in the background: %s", failed)
		e.info("hint: 'kist gc' shows the error; the warning ends when it succeeds")
	}
	if e.Programs.Start == nil || !r.Objects().NeedsMaintenance() && !gc.IsDue(r) {
		return
	}
	e.verbose("maintaining the repository in the background")
	if err := e.Programs.Start("--repo", r.Home(), "--quiet", "gc", "--auto"); err != nil {
		e.warn("'kist gc --auto' did not start: %v", err)
	}
}

// autoMaintains reports whether commands maintain the repository by themselves.
func autoMaintains(env *Env, r *kist.Repository) bool {
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
