package remotetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
)

// fails reports whether a store fails a check.
func fails(t *testing.T, c check, b remote.Backend) bool {
	return objecttest.Fails(t, func(tb testing.TB) { c.run(tb, b) })
}

// mutants are stores that each break one promise.
var mutants = []struct {
	name  string
	check string // the check that must fail
	spoil func(m *Mutant)
}{
	{"get from the beginning", "Get", func(m *Mutant) {
		m.OnGet = func(ctx context.Context, name string, p []byte, _ int64) (int, error) {
			return m.Memory.Get(ctx, name, p, 0)
		}
	}},
	{"get returns io.EOF at the end", "Get", func(m *Mutant) {
		m.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			n, err := m.Memory.Get(ctx, name, p, off)
			if err == nil && n < len(p) {
				err = io.EOF
			}
			return n, err
		}
	}},
	{"get beyond the end is an error", "Get", func(m *Mutant) {
		m.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if info, err := m.Memory.Stat(ctx, name); err == nil && off > info.Size {
				return 0, &remote.Error{Op: "get", Name: name, Err: errors.New("416")}
			}
			return m.Memory.Get(ctx, name, p, off)
		}
	}},
	{"get of at most one piece", "Get", func(m *Mutant) {
		m.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return m.Memory.Get(ctx, name, p[:min(len(p), 255<<10)], off)
		}
	}},
	{"get of no bytes sends no request", "NotFound", func(m *Mutant) {
		m.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if len(p) == 0 && ctx.Err() == nil {
				return 0, nil
			}
			return m.Memory.Get(ctx, name, p, off)
		}
	}},
	{"large blobs are cut", "Large", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			return m.Memory.Put(ctx, name, body, min(size, 16<<20))
		}
	}},
	{"empty blobs are not stored", "Sizes", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if size == 0 {
				return nil
			}
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
	{"plain error for an absent blob", "NotFound", func(m *Mutant) {
		m.OnStat = func(ctx context.Context, name string) (remote.Info, error) {
			info, err := m.Memory.Stat(ctx, name)
			if errors.Is(err, remote.ErrNotFound) {
				err = remote.ErrNotFound
			}
			return info, err
		}
	}},
	{"every name is accepted", "NamesRefused", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if strings.HasPrefix(name, "..") {
				return nil
			}
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
	{"every prefix is accepted", "NamesRefused", func(m *Mutant) {
		m.OnList = func(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
			return m.Memory.List(ctx, strings.TrimSuffix(prefix, "/")+"/")
		}
	}},
	{"names are cut", "Names", func(m *Mutant) {
		cut := func(name string) string { return strings.ReplaceAll(name, "..", ".") }
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			return m.Memory.Put(ctx, cut(name), body, size)
		}
		m.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return m.Memory.Get(ctx, cut(name), p, off)
		}
		m.OnStat = func(ctx context.Context, name string) (remote.Info, error) { return m.Memory.Stat(ctx, cut(name)) }
	}},
	{"records are put", "KindsApart", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if remote.IsRecord(name) {
				return m.Memory.Create(ctx, name, make([]byte, size))
			}
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
	{"blobs are created", "KindsApart", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if !remote.IsRecord(name) {
				return m.Memory.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
			}
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"a short body is filled up", "PutShortBody", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			data := make([]byte, size)
			body.ReadAt(data, 0)
			return m.Memory.Put(ctx, name, bytes.NewReader(data), size)
		}
	}},
	{"a short body is stored", "PutShortBody", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			data := make([]byte, size)
			n, _ := body.ReadAt(data, 0)
			err := m.Memory.Put(ctx, name, body, size)
			if err != nil {
				m.Memory.Put(ctx, name, bytes.NewReader(data), int64(n))
			}
			return err
		}
	}},
	{"a body is read beyond its size", "PutBody", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, _ int64) error {
			data, err := io.ReadAll(io.NewSectionReader(body, 0, 1<<30))
			if err != nil {
				return &remote.Error{Op: "put", Name: name, Err: err}
			}
			return m.Memory.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
		}
	}},
	{"a body is read after put returns", "PutBody", func(m *Mutant) {
		var wg sync.WaitGroup
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			err := m.Memory.Put(ctx, name, body, size)
			wg.Go(func() { time.Sleep(time.Millisecond); body.ReadAt(make([]byte, 1), 0) })
			return err
		}
		m.OnStat = func(ctx context.Context, name string) (remote.Info, error) {
			wg.Wait()
			return m.Memory.Stat(ctx, name)
		}
	}},
	{"io.EOF with the last byte is an error", "PutBody", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if _, err := body.ReadAt(make([]byte, size), 0); err != nil {
				return &remote.Error{Op: "put", Name: name, Err: err}
			}
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
	{"another error for a taken name", "PutTaken", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			err := m.Memory.Put(ctx, name, body, size)
			if errors.Is(err, remote.ErrExists) {
				err = &remote.Error{Op: "put", Name: name, Kind: remote.ErrPermission}
			}
			return err
		}
	}},
	{"an error for a taken name, but replaced", "PutTaken", func(m *Mutant) {
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			err := m.Memory.Put(ctx, name, body, size)
			if errors.Is(err, remote.ErrExists) {
				m.Remove(name)
				m.Memory.Put(ctx, name, body, size)
			}
			return err
		}
	}},
	{"stored in parts", "PutWhole", func(m *Mutant) {
		seen := make(chan struct{})
		var once sync.Once
		m.OnStat = func(ctx context.Context, name string) (remote.Info, error) {
			info, err := m.Memory.Stat(ctx, name)
			if err == nil {
				once.Do(func() { close(seen) })
			}
			return info, err
		}
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if err := m.Memory.Put(ctx, name, body, size/2); err != nil {
				return err
			}
			select {
			case <-seen:
			case <-time.After(time.Minute):
			}
			m.Remove(name)
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
	{"records are replaced", "Create", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			m.Remove(name)
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"the same record is created twice", "Create", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			err := m.Memory.Create(ctx, name, data)
			if errors.Is(err, remote.ErrExists) && bytes.Equal(m.Data(name), data) {
				err = nil
			}
			return err
		}
	}},
	{"create keeps data", "Create", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			err := m.Memory.Create(ctx, name, data)
			if err == nil {
				m.mu.Lock()
				m.blobs[name] = blob{data, m.tick}
				m.mu.Unlock()
			}
			return err
		}
	}},
	{"check, then create", "CreateRace", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			_, err := m.Memory.Stat(ctx, name)
			time.Sleep(time.Millisecond)
			if errors.Is(err, remote.ErrNotFound) {
				m.Remove(name)
			}
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"no create wins a race", "CreateRace", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if err := m.Memory.Create(ctx, name, data); err != nil {
				return err
			}
			return &remote.Error{Op: "create", Name: name, Kind: remote.ErrExists}
		}
	}},
	{"the last bytes stay", "CreateRace", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			err := m.Memory.Create(ctx, name, data)
			if errors.Is(err, remote.ErrExists) {
				m.Set(name, data)
			}
			return err
		}
	}},
	{"records of any size", "MaxRecord", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if len(data) > remote.MaxRecord {
				return m.store(Create, name, data)
			}
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"small records only", "MaxRecord", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if len(data) > 1<<20 {
				return &remote.Error{Op: "create", Name: name, Err: errors.New("too large")}
			}
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"delete of an absent name is an error", "Delete", func(m *Mutant) {
		m.OnDelete = func(ctx context.Context, name string) error {
			if _, err := m.Memory.Stat(ctx, name); err != nil {
				return err
			}
			return m.Memory.Delete(ctx, name)
		}
	}},
	{"delete removes folders", "Delete", func(m *Mutant) {
		m.OnDelete = func(ctx context.Context, name string) error {
			for _, under := range m.Names(name + "/") {
				m.Remove(under)
			}
			return m.Memory.Delete(ctx, name)
		}
	}},
	{"delete does nothing", "Delete", func(m *Mutant) {
		m.OnDelete = func(context.Context, string) error { return nil }
	}},
	{"list in another order", "List", func(m *Mutant) {
		m.ChangeList(func(infos []remote.Info) []remote.Info {
			slices.SortFunc(infos, func(a, b remote.Info) int {
				return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
			})
			return infos
		})
	}},
	{"list without sizes", "List", func(m *Mutant) {
		m.ChangeList(func(infos []remote.Info) []remote.Info {
			for i := range infos {
				infos[i].Size = 0
			}
			return infos
		})
	}},
	{"list of one page only", "ListMany", func(m *Mutant) {
		m.ChangeList(func(infos []remote.Info) []remote.Info { return infos[:min(len(infos), 1000)] })
	}},
	{"list misses the first entry of a page", "ListMany", func(m *Mutant) {
		m.ChangeList(func(infos []remote.Info) []remote.Info {
			if len(infos) > 1000 {
				infos = slices.Delete(infos, 1000, 1001)
			}
			return infos
		})
	}},
	{"list continues after a stop", "ListStops", func(m *Mutant) {
		m.OnList = func(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
			return func(yield func(remote.Info, error) bool) {
				for info, err := range m.Memory.List(ctx, prefix) {
					yield(info, err)
				}
			}
		}
	}},
	{"list of a cancelled context is empty", "Cancelled", func(m *Mutant) {
		m.OnList = func(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
			if ctx.Err() != nil {
				return func(func(remote.Info, error) bool) {}
			}
			return m.Memory.List(ctx, prefix)
		}
	}},
	{"delete ignores its context", "Cancelled", func(m *Mutant) {
		m.OnDelete = func(_ context.Context, name string) error { return m.Memory.Delete(context.Background(), name) }
	}},
	{"create checks its context last", "Cancelled", func(m *Mutant) {
		m.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if _, err := m.Memory.Stat(context.Background(), name); err == nil {
				return &remote.Error{Op: "create", Name: name, Kind: remote.ErrExists}
			}
			return m.Memory.Create(ctx, name, data)
		}
	}},
	{"concurrent puts fail", "Concurrent", func(m *Mutant) {
		var mu sync.Mutex
		m.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if !mu.TryLock() {
				return &remote.Error{Op: "put", Name: name, Kind: remote.ErrTemporary}
			}
			defer mu.Unlock()
			time.Sleep(time.Millisecond)
			return m.Memory.Put(ctx, name, body, size)
		}
	}},
}

// Each mutant fails its check, and a correct store fails none.
func TestSuiteFindsMutants(t *testing.T) {
	defer func(old time.Duration) { patience = old }(patience)
	patience = 20 * time.Millisecond
	for _, mutant := range mutants {
		t.Run(strings.ReplaceAll(mutant.name, " ", "-"), func(t *testing.T) {
			c := checks[slices.IndexFunc(checks, func(c check) bool { return c.name == mutant.check })]
			m := NewMutant()
			mutant.spoil(m)
			if !fails(t, c, m) {
				t.Errorf("the mutant passes the check %s", c.name)
			}
		})
	}
	for _, c := range checks {
		if fails(t, c, NewMutant()) {
			t.Errorf("a correct store fails the check %s", c.name)
		}
	}
}
