package remotetest

import (
	"context"
	"io"
	"iter"

	"github.com/kist-vcs/kist/remote"
)

// Mutant is a [Memory] with methods that a test replaces. Each calls the field of its name.
type Mutant struct {
	*Memory
	OnGet    func(ctx context.Context, name string, p []byte, off int64) (int, error)
	OnPut    func(ctx context.Context, name string, body io.ReaderAt, size int64) error
	OnStat   func(ctx context.Context, name string) (remote.Info, error)
	OnList   func(ctx context.Context, prefix string) iter.Seq2[remote.Info, error]
	OnDelete func(ctx context.Context, name string) error
	OnCreate func(ctx context.Context, name string, data []byte) error
}

// NewMutant returns a Mutant that works like its Memory.
func NewMutant() *Mutant {
	m := NewMemory()
	return &Mutant{m, m.Get, m.Put, m.Stat, m.List, m.Delete, m.Create}
}

// Get implements [remote.Backend].
func (m *Mutant) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	return m.OnGet(ctx, name, p, off)
}

// Put implements [remote.Backend].
func (m *Mutant) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return m.OnPut(ctx, name, body, size)
}

// Stat implements [remote.Backend].
func (m *Mutant) Stat(ctx context.Context, name string) (remote.Info, error) {
	return m.OnStat(ctx, name)
}

// List implements [remote.Backend].
func (m *Mutant) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return m.OnList(ctx, prefix)
}

// Delete implements [remote.Backend].
func (m *Mutant) Delete(ctx context.Context, name string) error { return m.OnDelete(ctx, name) }

// Create implements [remote.Backend].
func (m *Mutant) Create(ctx context.Context, name string, data []byte) error {
	return m.OnCreate(ctx, name, data)
}

// ChangeList makes change edit the entries of each list.
func (m *Mutant) ChangeList(change func([]remote.Info) []remote.Info) {
	m.OnList = func(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
		return func(yield func(remote.Info, error) bool) {
			var infos []remote.Info
			for info, err := range m.Memory.List(ctx, prefix) {
				if err != nil {
					yield(info, err)
					return
				}
				infos = append(infos, info)
			}
			for _, info := range change(infos) {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}
