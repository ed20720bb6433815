package ingest

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

// WriteSmall writes the only batch of a volume to a value log, which it returns. Random gives
// the bytes of the log's header that Badger would choose.
func (w *Writer) WriteSmall(b *Batch, random io.Reader) (log *os.File, err error) {
	data := make([]byte, LogHeaderSize, LogHeaderSize+b.size)
	if _, err := io.ReadFull(random, data[8:]); err != nil {
		return nil, err
	}
	for _, e := range b.entries {
		data = appendEntry(data, e)
	}
	log, err = disk.OpenFile(filepath.Join(w.dir, LogName(1)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}

	w.mu.Lock()
	w.space = &space{dir: w.dir, o: w.o}
	w.space.logs, w.space.off = []*os.File{log}, int64(len(data))
	w.mu.Unlock()
	_, err = log.Write(data)
	return log, err
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
