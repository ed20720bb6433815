package volume

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// adoptVolume seals the volume of a dead writer in dir, or removes it if the store has all its
// objects here. After a kill at any moment, it can be called again. The caller holds the lock of
// the volume.
func (d deadWriters) adoptVolume(ctx context.Context, name, dir string) error {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	logs, err := ingest.KeepLogs(root)
	if err == nil {
		_, err = d.store.listVolumes()
	}
	if err != nil {
		return err
	}

	w := &writer{store: d.store, name: name, session: name, dir: dir, intake: intake{table: newTable()}}
	w.logs = ingest.NewWriter(dir, &d.store.o.ingest, w.setPlace)
	defer w.logs.Close()
	isNew := false
	for i := range logs {
		more, err := w.adoptLog(ctx, root, ingest.LogName(uint32(i)+1))
		if errors.Is(err, errPatched) {
			isNew = false // only copiers write patches, so other volumes have all objects
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ingest.LogName(uint32(i)+1), err)
		}
		isNew = isNew || more
	}
	if !isNew {
		return disk.RemoveAll(dir)
	}

	if now := d.store.o.Now(); w.created.After(now) {
		w.created = now
	}
	if err := w.complete(nil, nil, w.table.sortedNumbers()); err != nil {
		return err
	}
	_, err = d.store.listVolumes()
	return err
}

var errPatched = errors.New("a patch")

// adoptLog adds the next value log to the volume. It truncates the log at the first entry
// that is not intact, and reports whether the log has an object that no volume has.
func (w *writer) adoptLog(ctx context.Context, root *os.Root, name string) (isNew bool, err error) {
	f, changed, size, err := w.logs.AdoptLog(root, name)
	if err != nil {
		return false, err
	}
	if changed.After(w.created) {
		w.created = changed
	}

	var buf []byte
	end, err := ingest.WalkIntact(ctx, f, size, func(e ingest.Entry) (err error) {
		if buf, err = w.adoptObject(f, e, buf); err == nil && !isNew {
			var v *sealedVolume
			v, _, err = findHere(w.store, e.Key)
			isNew = v == nil
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return isNew, f.Truncate(end)
}

// adoptObject adds an object of a dead writer to the volume. The error matches ingest.ErrEntry if
// the object is damaged.
func (w *writer) adoptObject(f *os.File, e ingest.Entry, buf []byte) ([]byte, error) {
	value, raw, buf, err := readLogObject(f, e, buf)
	if _, patched := frame.Base(value); patched {
		return buf, errPatched
	}
	if err == nil && (object.CheckSize(e.Key.Kind, raw) != nil || w.table.findRecord(e.Key) != nil) {
		err = ingest.ErrEntry
	}
	if err != nil {
		return buf, err
	}
	w.recordObject(addedObject{id: e.Key.ID, kind: e.Key.Kind, stored: uint32(len(value)), raw: uint32(raw)})
	return buf, nil
}
