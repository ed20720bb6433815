package remotetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/remote"
)

// Faulty passes calls on to another backend. Calls fail as planned by Fail and
// Random. It is safe for concurrent use.
type Faulty struct {
	b remote.Backend
	faults
}

// NewFaulty returns a wrapper of b without faults.
func NewFaulty(b remote.Backend) *Faulty { return &Faulty{b: b} }

// Unwrap returns the backend without faults.
func (f *Faulty) Unwrap() remote.Backend { return f.b }

// call calls act, with the fault of this call.
func (f *Faulty) call(ctx context.Context, op Op, name string, act func() error) error {
	s, err := f.next(ctx, op, name)
	if err != nil {
		return err
	}
	return s.after(ctx, act())
}

// Get implements [remote.Blobs].
func (f *Faulty) Get(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	s, err := f.next(ctx, Get, name)
	if err != nil {
		return 0, err
	}
	n, err = f.b.Get(ctx, name, p, off)
	if err = s.after(ctx, err); err != nil {
		for i := range p[n/2:] { // after an error, the bytes have no meaning
			p[n/2+i] = 0xaa
		}
		return n / 2, err
	}
	if s.how == Wrong && n > 0 {
		p[s.byte%n] ^= 0x10
	}
	return n, nil
}

// Put implements [remote.Blobs].
func (f *Faulty) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return f.call(ctx, Put, name, func() error { return f.b.Put(ctx, name, body, size) })
}

// Stat implements [remote.Blobs].
func (f *Faulty) Stat(ctx context.Context, name string) (remote.Info, error) {
	var info remote.Info
	err := f.call(ctx, Stat, name, func() (err error) { info, err = f.b.Stat(ctx, name); return err })
	if err != nil {
		return remote.Info{}, err
	}
	return info, nil
}

// List implements [remote.Blobs].
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		s, err := f.next(ctx, List, prefix)
		if err != nil {
			yield(remote.Info{}, err)
			return
		}
		var infos []remote.Info
		for info, listErr := range f.b.List(ctx, prefix) {
			if err = listErr; err != nil {
				break
			}
			if !f.hides(info.Name) {
				infos = append(infos, info)
			}
		}
		if s.how == Short && s.err != nil {
			infos = infos[:len(infos)/2]
		}
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
		if err = s.after(ctx, err); err != nil {
			yield(remote.Info{}, err)
		}
	}
}

// Delete implements [remote.Blobs].
func (f *Faulty) Delete(ctx context.Context, name string) error {
	return f.call(ctx, Delete, name, func() error { return f.b.Delete(ctx, name) })
}

// Create implements [remote.Creator].
func (f *Faulty) Create(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, Create, name, func() error { return f.b.Create(ctx, name, data) })
}

// Close implements [remote.Backend].
func (f *Faulty) Close() error { return f.b.Close() }

// faultError returns err as an error of a backend: a [*remote.Error] as it is,
// any other as its kind.
func faultError(op Op, name string, err error) error {
	var re *remote.Error
	switch {
	case err == nil:
		err = remote.ErrTemporary
	case errors.As(err, &re):
		return err
	}
	return &remote.Error{Op: op.String(), Name: name, Kind: err, Err: ErrFault}
}

func has(list []Op, op Op) bool {
	return len(list) == 0 || slices.Contains(list, op) || slices.Contains(list, Any)
}
