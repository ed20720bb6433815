package check

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// badStore is a store with a mistake, and the result of the checks.
type badStore struct {
	make           func(o *odd)
	want           []string // the checks that are neither OK nor skipped
	detail         string   // part of the detail of the first of them
	shared, usable bool
	left           bool // probes stay behind
}

// badCreates are stores with a mistake in Create, and one that only permits reading.
var badCreates = map[string]badStore{
	"creates overwrite": {func(o *odd) {
		o.OnCreate = func(ctx context.Context, name string, data []byte) error {
			o.Set(name, data)
			return nil
		}
	}, []string{"create-once failed", "create-race failed"}, "a second create was accepted", false, true, false},
	"creates overwrite and report an error": {func(o *odd) {
		o.OnCreate = func(ctx context.Context, name string, data []byte) error {
			had := o.has(name)
			o.Set(name, data)
			if had {
				return refuse("create", name, remote.ErrExists)
			}
			return nil
		}
	}, []string{"create-once failed", "create-race failed"}, "500 came back", false, true, false},
	"creates race": {(*odd).createLate, []string{"create-race failed"}, "32 of 32 callers", false, true, false},
	"of racing creates, the last stays": {func(o *odd) {
		var mu sync.Mutex
		o.OnCreate = func(ctx context.Context, name string, data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			waiting := o.has(name)
			err := o.Memory.Create(ctx, name, data)
			if waiting && o.Calls(remotetest.Create) > 50 { // after the check create-once
				o.Set(name, data)
			}
			return err
		}
	}, []string{"create-race failed"}, "another caller's bytes", false, true, false},
	"racing creates mix bytes": {func(o *odd) {
		o.OnCreate = func(ctx context.Context, name string, data []byte) error {
			err := o.Memory.Create(ctx, name, data)
			if err != nil && o.Calls(remotetest.Create) > 50 {
				old := o.Data(name)
				o.Set(name, append(old[:len(old)/2], data[len(old)/2:]...))
			}
			return err
		}
	}, []string{"create-race failed"}, "none of theirs", false, true, false},
	"creates are refused": {func(o *odd) {
		o.OnCreate = func(_ context.Context, name string, _ []byte) error {
			return refuse("create", name, remote.ErrUnsupported)
		}
	}, []string{"create failed"}, "the reason", false, false, false},
	"only reading is permitted": {func(o *odd) {
		o.OnPut = func(_ context.Context, name string, _ io.ReaderAt, _ int64) error {
			return refuse("put", name, remote.ErrPermission)
		}
		o.OnCreate = func(_ context.Context, name string, _ []byte) error {
			return refuse("create", name, remote.ErrPermission)
		}
	}, []string{"put failed", "create failed"}, "the reason", false, false, false},
}

// badPuts are stores with a mistake in Put.
var badPuts = map[string]badStore{
	"puts overwrite": {func(o *odd) { o.OnPut = o.overwrite },
		[]string{"put-once failed", "put-race failed"}, "a second put was accepted", false, true, false},
	"large puts race": {func(o *odd) {
		o.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			if size > 16<<20 {
				return o.overwrite(ctx, name, body, size)
			}
			return o.Memory.Put(ctx, name, body, size)
		}
	}, []string{"put-race failed"}, "4 of 4 callers", false, true, false},
	"large puts are mixed": {func(o *odd) {
		o.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
			err := o.Memory.Put(ctx, name, body, size)
			if err != nil && size > 16<<20 {
				data := o.Data(name)
				_, _ = body.ReadAt(data[size-1:], size-1)
				data[size-1] ^= 1
				o.Set(name, data)
			}
			return err
		}
	}, []string{"put-race failed"}, "none of theirs", false, true, false},
}

// badReads are stores with a mistake in Get or Stat.
var badReads = map[string]badStore{
	"absence is cached": {func(o *odd) { o.cacheAbsence(time.Second) },
		[]string{"read-after-write failed"}, "not found", false, false, false},
	"sizes lag behind": {func(o *odd) {
		o.OnStat = func(ctx context.Context, name string) (remote.Info, error) {
			info, err := o.Memory.Stat(ctx, name)
			info.Size /= 2
			return info, err
		}
	}, []string{"read-after-write failed"}, "with 500", false, false, false},
	"some connections lag behind": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if o.has(name) && o.Calls(remotetest.Get)%20 == 19 {
				_, _ = o.Memory.Get(ctx, name, nil, 0)
				return 0, refuse("get", name, remote.ErrNotFound)
			}
			return o.Memory.Get(ctx, name, p, off)
		}
	}, []string{"read-after-write failed"}, "not found", false, false, false},
	"bodies are cut short": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			n, err := o.Memory.Get(ctx, name, p, off)
			return min(n, 65536), err
		}
	}, []string{"read-after-write failed"}, "65536 came back", false, false, false},
	"bits are flipped": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			n, err := o.Memory.Get(ctx, name, p, off)
			if n > 100_000 {
				p[100_000] ^= 1
			}
			return n, err
		}
	}, []string{"read-after-write failed"}, "other bytes", false, false, false},
	"ranges are ignored": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return o.Memory.Get(ctx, name, p, 0)
		}
	}, []string{"ranges failed"}, "other bytes", false, false, false},
	"ranges are off by one": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return o.Memory.Get(ctx, name, p[:max(0, min(len(p), blobSize-1-int(off)))], off)
		}
	}, []string{"read-after-write failed"}, "600000 came back", false, false, false},
	"ranges behind the end are errors": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if data := o.Data(name); data != nil && off >= int64(len(data)) {
				return 0, refuse("get", name, nil)
			}
			return o.Memory.Get(ctx, name, p, off)
		}
	}, []string{"ranges failed"}, "the reason", false, false, false},
	"403 for an absent name": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if n, err := o.Memory.Get(ctx, name, p, off); !errors.Is(err, remote.ErrNotFound) {
				return n, err
			}
			return 0, refuse("get", name, remote.ErrPermission)
		}
	}, []string{"absent failed"}, "lack the permission to list", false, false, false},
	"absent names are empty": {func(o *odd) {
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			if n, err := o.Memory.Get(ctx, name, p, off); !errors.Is(err, remote.ErrNotFound) {
				return n, err
			}
			return 0, nil
		}
	}, []string{"absent failed"}, "never stored", false, false, false},
}

// badLists are stores with a mistake in List.
var badLists = map[string]badStore{
	"lists miss an entry": {func(o *odd) {
		o.ChangeList(func(infos []remote.Info) []remote.Info { return infos[:len(infos)-1] })
	}, []string{"list failed"}, "is not listed", false, false, false},
	"lists miss folders within folders": {func(o *odd) {
		o.ChangeList(func(infos []remote.Info) []remote.Info {
			if strings.Contains(infos[0].Name, "root/") {
				return nil
			}
			return slices.DeleteFunc(infos, func(info remote.Info) bool { return strings.Contains(info.Name, "packs/") })
		})
	}, []string{"list failed"}, "is not listed", false, false, false},
	"lists lag behind":     {listLate(3 * time.Second), []string{"list note"}, "complete only after", true, true, false},
	"lists lag far behind": {listLate(time.Minute), []string{"list failed"}, "is not listed", false, false, false},
	"lists are not in order": {func(o *odd) {
		o.ChangeList(func(infos []remote.Info) []remote.Info { slices.Reverse(infos); return infos })
	}, []string{"list failed"}, "in order", false, false, false},
	"lists have wrong sizes": {func(o *odd) {
		o.ChangeList(func(infos []remote.Info) []remote.Info { infos[0].Size++; return infos })
	}, []string{"list failed"}, "is listed with", false, false, false},
	"lists have other folders": {func(o *odd) {
		o.ChangeList(func(infos []remote.Info) []remote.Info {
			return append(infos, remote.Info{Name: "z"})
		})
	}, []string{"list failed"}, `"z" is listed among`, false, false, false},
}

// badDeletes are stores with a mistake in Delete.
var badDeletes = map[string]badStore{
	"deleting is not permitted": {func(o *odd) {
		o.OnDelete = func(_ context.Context, name string) error { return refuse("delete", name, remote.ErrPermission) }
	}, []string{"delete note", "clean-up note"}, "the credentials may not delete", true, true, true},
	"deletions have no effect": {func(o *odd) {
		o.OnDelete = func(context.Context, string) error { return nil }
	}, []string{"delete failed"}, "still there", false, false, true},
	"deletions lag behind": {func(o *odd) {
		o.OnDelete = func(_ context.Context, name string) error {
			time.AfterFunc(3*time.Second, func() { o.Remove(name) })
			return nil
		}
	}, []string{"delete note"}, "gone only after", true, true, true},
	"deleting twice is an error": {func(o *odd) {
		o.OnDelete = func(ctx context.Context, name string) error {
			if !o.has(name) {
				return refuse("delete", name, remote.ErrNotFound)
			}
			return o.Memory.Delete(ctx, name)
		}
	}, []string{"delete failed", "clean-up note"}, "deleting a missing name", false, false, false},
}

// cacheAbsence makes the store remember for some time that a name is absent.
func (o *odd) cacheAbsence(wait time.Duration) {
	var mu sync.Mutex
	absent := map[string]time.Time{}

	o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if until, ok := absent[name]; ok && time.Now().Before(until) {
			return 0, refuse("get", name, remote.ErrNotFound)
		}
		n, err := o.Memory.Get(ctx, name, p, off)
		if errors.Is(err, remote.ErrNotFound) {
			absent[name] = time.Now().Add(wait)
		}
		return n, err
	}
}

// createLate makes Create look up the name some time before it stores.
func (o *odd) createLate() {
	o.OnCreate = func(ctx context.Context, name string, data []byte) error {
		if o.has(name) {
			return refuse("create", name, remote.ErrExists)
		}
		time.Sleep(time.Millisecond)
		o.Set(name, data)
		return nil
	}
}

// listLate returns a function that makes List include a name only some time after the first list.
func listLate(wait time.Duration) func(o *odd) {
	return func(o *odd) {
		seen := map[string]time.Time{}
		o.ChangeList(func(infos []remote.Info) []remote.Info {
			return slices.DeleteFunc(infos, func(info remote.Info) bool {
				if seen[info.Name].IsZero() {
					seen[info.Name] = time.Now()
				}
				return time.Since(seen[info.Name]) < wait
			})
		})
	}
}

// TestBadStores checks that each bad store fails the expected checks and no others.
func TestBadStores(t *testing.T) {
	for kind, stores := range map[string]map[string]badStore{
		"create": badCreates, "put": badPuts, "read": badReads, "list": badLists, "delete": badDeletes,
	} {
		for name, store := range stores {
			t.Run(kind+"/"+name, func(t *testing.T) {
				o := &odd{remotetest.NewMutant()}
				run(t, func() remote.Backend { store.make(o); return o }, Options{ExclusivePut: kind == "put"}, func(r *Report, err error) {
					if err != nil {
						t.Fatal(err)
					}
					store.check(t, o, r)
				})
			})
		}
	}
}

// check checks the report about the store.
func (store badStore) check(t *testing.T, o *odd, r *Report) {
	got := slices.DeleteFunc(statuses(r), func(s string) bool { return strings.HasSuffix(s, "skipped") })
	if !slices.Equal(got, store.want) || r.Shared() != store.shared || r.Usable() != store.usable {
		t.Errorf("got %q, shared %t, usable %t\n%v", got, r.Shared(), r.Usable(), r)
	}

	var detail string
	for _, c := range r.Checks {
		if c.Status == Failed || c.Status == Note {
			detail = c.Detail
			break
		}
	}
	if !strings.Contains(detail, store.detail) {
		t.Errorf("detail %q, want %q in it", detail, store.detail)
	}

	if (len(o.Names("")) > 0) != store.left {
		t.Errorf("probes left: %q, want any: %t", o.Names(""), store.left)
	}
}
