package cli

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
)

// maintain has 'kist gc --auto' do what the store needs in the background, if
// it needs anything and the configuration does not say gc.auto = false. It is
// for the end of commands that write. It warns if the last 'kist gc --auto'
// failed.
func (e *Env) maintain(r *kist.Repository) {
	if !autoMaintains(e, r) {
		return
	}
	if failed := gc.AutoFailure(r); failed != "" {
		e.warn("'kist gc --auto' failed in the background: %s", failed)
		e.info("hint: 'kist gc' shows the error; the warning ends when it succeeds")
	}
	if e.Start == nil || !r.Objects().NeedsMaintenance() && !gc.IsDue(r) {
		return
	}
	e.verbose("maintaining the repository in the background")
	if err := e.Start("--repo", r.Home(), "--quiet", "gc", "--auto"); err != nil {
		e.warn("'kist gc --auto' did not start: %v", err)
	}
}

// autoMaintains reports whether commands maintain the repository by themselves.
func autoMaintains(env *Env, r *kist.Repository) bool {
	auto, _ := r.Config().Get("gc.auto")
	return auto != "false" && env.Getenv("KIST_GC_AUTO") != "0"
}

// startDetached runs this program with other arguments, and does not wait for
// it. It goes on after this process, and the terminal, have ended.
func startDetached(args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
