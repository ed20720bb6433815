package volume

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/kist-vcs/kist/object/disk"
)

// A volume with only one batch is written without Badger, which syncs eight times between
// opening and closing. So the volume of a small commit costs five syncs.

// finishSmall is finish for a volume that has no database yet.
func (w *writer) finishSmall() error {
	w.mu.Lock()
	b := w.filling
	w.filling = nil
	w.mu.Unlock()
	if b == nil {
		b = &batch{}
	}
	data := make([]byte, logHeaderSize, logHeaderSize+b.size)
	if _, err := io.ReadFull(w.store.o.Rand, data[8:]); err != nil {
		return err
	}
	for _, e := range b.entries {
		data = appendEntry(data, e)
	}
	f, err := disk.OpenFile(filepath.Join(w.dir, logName(1)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w.committing.Lock()
	w.space = &space{dir: w.dir, o: &w.store.o}
	w.space.logs, w.space.off = []*os.File{f}, int64(len(data))
	w.committing.Unlock()
	if _, err := f.Write(data); err != nil {
		return err
	}
	w.wrote(b, f)
	return w.complete(nil, nil, w.table.sorted())
}

// appendEntry appends an entry as Badger writes it to a value log, with transaction
// number 1.
func appendEntry(b []byte, e *badger.Entry) []byte {
	start := len(b)
	b = append(b, 0, e.UserMeta)
	b = binary.AppendUvarint(b, uint64(len(e.Key)+8))
	b = binary.AppendUvarint(b, uint64(len(e.Value)))
	b = append(b, 0)
	b = append(b, e.Key...)
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64-1)
	b = append(b, e.Value...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}
