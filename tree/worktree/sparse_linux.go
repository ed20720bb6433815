package worktree

import (
	"io"

	"golang.org/x/sys/unix"
)

// contentReader returns a reader of the file from its start that does not read holes from disk. Disk
// images and databases can have terabytes of them.
func (f osFile) contentReader() io.Reader {
	if !reliable[f.fileSystem()] {
		return f
	}
	return &sparseReader{f: f}
}

// sparseReader reads a file with holes. The place of the descriptor does not matter to it.
type sparseReader struct {
	f    osFile
	at   int64
	data int64 // start of the data at or after at
	end  int64 // the bytes from data to here are data; at == end means that the next part is unknown
}

// Read returns the zeros of a hole, or a part of the data behind it, but never both.
func (r *sparseReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.at >= r.end {
		if err := r.findPart(); err != nil {
			return 0, err
		}
	}

	if r.at < r.data {
		n := int(min(int64(len(p)), r.data-r.at))
		clear(p[:n])
		r.at += int64(n)
		return n, nil
	}

	p = p[:min(int64(len(p)), r.end-r.at)]
	n, err := 0, error(nil)
	err = retry(func() error { n, err = unix.Pread(int(r.f), p, r.at); return err })
	if err != nil {
		return 0, err
	}
	if n == 0 { // the file became shorter
		return 0, io.EOF
	}
	r.at += int64(n)
	return n, nil
}

// findPart finds the next data at or after r.at, and its end. The error is [io.EOF] if the
// file ends at r.at. A file can change at any moment, so the results need not fit together;
// then the caller sees that its times have changed.
func (r *sparseReader) findPart() error {
	start, err := unix.Seek(int(r.f), r.at, unix.SEEK_DATA)
	if err == unix.ENXIO { // no data follows
		size, err := unix.Seek(int(r.f), 0, io.SeekEnd)
		if err == nil && size <= r.at {
			err = io.EOF
		}
		r.data, r.end = size, size
		return err
	}
	if err != nil {
		return err
	}

	end, err := unix.Seek(int(r.f), start, unix.SEEK_HOLE)
	if err == unix.ENXIO { // the file became shorter
		return io.EOF
	}
	r.data, r.end = start, end
	return err
}
