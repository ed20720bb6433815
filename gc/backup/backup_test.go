package backup_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// While another process maintains the repository, a backup begins above the local limit. The
// step evict still moves content if that process has ended by then, and is not put off.
func TestEvictAfterBusy(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	r := s.WithRemote(remotetest.NewMemory())
	lock, err := backup.Lock(ctx, r, 0)
	s.Check(err)
	defer lock.Unlock()

	data := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(data)
	s.Write("file", string(data))
	s.Check(backup.Run(ctx, r, backup.Options{}).Err())
	sweep, err := s.Repo.Objects().Sweep(ctx, volume.SweepOptions{})
	s.Check(err)
	defer sweep.Close()

	o := backup.Options{LocalLimit: 1}
	report := backup.Run(ctx, r, o)
	s.Check(report.Err())
	if !report.Postponed || report.Evicted != 0 {
		t.Errorf("the repository is busy: postponed %t, %d bytes evicted", report.Postponed, report.Evicted)
	}

	o.Progress = func(step, _ string) (kist.Progress, func()) {
		if step == backup.StepAdd {
			sweep.Close()
		}
		return nil, func() {}
	}
	report = backup.Run(ctx, r, o)
	s.Check(report.Err())
	if report.Postponed || report.Evicted == 0 {
		t.Errorf("the repository is busy at the start: postponed %t, %d bytes evicted", report.Postponed, report.Evicted)
	}
}
