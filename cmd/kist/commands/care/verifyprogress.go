package care

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/volume"
)

// verifyProgress shows how far a verification is: the check of the volumes, then the walk
// of history, then the repair.
type verifyProgress struct {
	env   *cli.Env
	p     *cli.Progress
	title string
}

const verifying = "verifying"

func newVerifyProgress(ctx context.Context, env *cli.Env, r *kist.Repository, check volume.CheckOptions) *verifyProgress {
	v := &verifyProgress{env: env, p: env.Progress(verifying), title: verifying}
	if v.p == nil {
		return v
	}
	var objects, bytes int64
	infos, _ := r.Objects().Volumes(ctx) // verify reports unreadable volumes at the end
	for _, info := range infos {
		objects += int64(info.Objects)
		bytes += info.Bytes
	}
	if !check.ReadData || check.Subset != nil {
		bytes = 0
	}
	v.p.SetTotal(uint64(objects), uint64(bytes))
	return v
}

func (v *verifyProgress) showChecking(done volume.Checked) {
	v.progressOf(verifying).SetDone(uint64(done.Objects), uint64(done.Bytes))
}

func (v *verifyProgress) showFollowing(nodes int) {
	v.progressOf("following history").SetDone(uint64(nodes), 0)
}

func (v *verifyProgress) showRestoring(done, total int64) {
	p := v.progressOf("restoring")
	p.SetTotal(uint64(total), 0)
	p.SetDone(uint64(done), 0)
}

// progressOf returns the progress of a phase, which begins with the first call.
func (v *verifyProgress) progressOf(title string) *cli.Progress {
	if v.title != title {
		v.p.Stop()
		v.p, v.title = v.env.Progress(title), title
	}
	return v.p
}

func (v *verifyProgress) stopProgress() { v.p.Stop() }
