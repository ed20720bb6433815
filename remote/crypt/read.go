package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// nearBegin is the offset below which a read begins at 0, if the header is not known: one request
// then costs less than two.
const nearBegin = 64 << 10

// Get implements [remote.Blobs]. It reads whole segments, in one request. For the first read of a
// blob, another request reads the header at the same time, unless a read under way brings it. Like every reader, it reads once more before
// it reports damage. A read beyond the end checks the padding, and that nothing follows.
func (s *Store) Get(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	switch err := remote.CheckName(name); {
	case err != nil:
		return 0, err
	case isClear(name):
		return s.b.Get(ctx, name, p, off)
	case typeOf(name) == 0:
		return 0, unknownName("get", name)
	case off < 0:
		return 0, &remote.Error{Op: "get", Name: name, Err: errors.New("negative offset")}
	case len(p) == 0, off > maxPlain:
		return s.b.Get(ctx, name, nil, 0)
	}

	err = retry.Verified(func() (err error) {
		n, err = s.read(ctx, name, p, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// PlainSize implements [remote.Encrypter].
func (s *Store) PlainSize(ctx context.Context, name string) (size int64, err error) {
	if typeOf(name) == 0 || isClear(name) {
		info, err := s.b.Stat(ctx, name)
		return info.Size, err
	}
	b, err := s.readHeader(ctx, name)
	if err != nil {
		return 0, err
	}
	return b.plain, nil
}

// RootKeyset implements [remote.Encrypter].
func (s *Store) RootKeyset(ctx context.Context, name string) (remote.KeysetRef, error) {
	if typeOf(name) != remote.TypeRoot {
		return remote.KeysetRef{}, unknownName("get", name)
	}
	return s.keysetOf(ctx, name)
}

// EpochOf returns the epoch with whose key a blob was encrypted. It reads the header, unless that is known.
func (s *Store) EpochOf(ctx context.Context, name string) (uint32, error) {
	if typeOf(name) == 0 || isClear(name) {
		return 0, unknownName("get", name)
	}
	k, err := s.keysetOf(ctx, name)
	return k.Epoch, err
}

// keysetOf returns the epoch of a blob, and the names of the keyset in the header of a root.
func (s *Store) keysetOf(ctx context.Context, name string) (k remote.KeysetRef, err error) {
	b := s.headers.get(name)
	if b == nil {
		if b, err = s.readHeader(ctx, name); err != nil {
			return k, err
		}
	}
	return parseHeader(typeOf(name), b.header)
}

// readHeader reads a header, which it authenticates.
func (s *Store) readHeader(ctx context.Context, name string) (b *blob, err error) {
	err = retry.Verified(func() error {
		r := &reading{s: s, name: name}
		defer r.close()
		err := r.fetch(ctx, 0, headerSizeOf(typeOf(name)))
		if err == nil {
			err = r.openHeader(ctx)
		}
		if err != nil {
			return r.failed(err)
		}
		b = r.blob
		return nil
	})
	return b, err
}

// read is Get without a second try.
func (s *Store) read(ctx context.Context, name string, p []byte, off int64) (int, error) {
	r := &reading{s: s, name: name, blob: s.headers.get(name)}
	defer r.close()
	n, err := r.read(ctx, p, off)
	if err != nil {
		return 0, r.failed(err)
	}
	return n, nil
}

// reading is a read of a blob under way.
type reading struct {
	s    *Store
	name string
	blob *blob // nil: the header is not known yet

	header   []byte  // as stored
	buf      *buffer // or nil
	from, to int64   // the range of stored bytes that was asked for; buf has fewer if the blob ends there
}

// buffer is memory for stored bytes.
type buffer struct{ data []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// maxKept is the largest size of a buffer that is used again.
const maxKept = 16 << 20

func (r *reading) close() {
	if r.buf != nil && cap(r.buf.data) <= maxKept {
		buffers.Put(r.buf)
	}
	r.buf = nil
}

// failed forgets the header, and returns err as an error of a store.
func (r *reading) failed(err error) error {
	r.s.headers.drop(r.name)
	var e *remote.Error
	var k *keyError
	switch {
	case errors.As(err, &k):
		return &remote.Error{Op: "get", Name: r.name, Err: err}
	case errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, remote.ErrNewerFormat), errors.Is(err, ErrOtherKeys):
		return &remote.Error{Op: "get", Name: r.name, Err: err}
	}
	return &remote.Error{Op: "get", Name: r.name, Kind: remote.ErrDamaged, Err: err}
}

func (r *reading) read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := r.begin(ctx, p, off); err != nil {
		return 0, err
	}
	b := r.blob
	switch {
	case off < b.plain || off == 0:
	case r.buf == nil:
		return r.s.b.Get(ctx, r.name, nil, 0) // is it still there?
	default:
		return 0, nil
	}

	want := min(int64(len(p)), b.plain-off)
	first, last := off/segmentSize, b.last()
	if want == int64(len(p)) {
		last = (off + want - 1) / segmentSize
	}
	end := b.end(last)
	if last == b.last() {
		end++ // nothing may follow
	}
	if r.buf == nil {
		if err := r.fetch(ctx, b.size+first*storedSegment, end); err != nil {
			return 0, err
		}
	} else if err := r.fetchMore(ctx, end); err != nil {
		return 0, err
	}

	switch got := r.from + int64(len(r.buf.data)); {
	case got < b.end(last):
		return 0, fmt.Errorf("it ends after %d of at least %d bytes", got, b.end(last))
	case last == b.last() && got > b.end(last):
		return 0, fmt.Errorf("it has more than %d bytes", b.end(last))
	}
	return int(want), r.decrypt(p[:want], off, first, last)
}

// begin makes the header known. If that takes a request, it reads the segments of the range at once.
func (r *reading) begin(ctx context.Context, p []byte, off int64) error {
	t := typeOf(r.name)
	size := headerSizeOf(t)
	var brought <-chan struct{} // closed once another read has brought the header, or failed; nil: this read brings it
	if r.blob == nil {
		var end func()
		if brought, end = r.s.headers.begin(r.name); end != nil {
			defer end()
		}
	}
	switch {
	case r.blob != nil && off >= segmentSize:
		return nil
	case r.blob != nil || off < nearBegin:
		// All of the segments, and all of the blob if it ends within p.
		end := off + int64(len(p))
		end = max(storedSize(t, end), size+segments(end)*storedSegment)
		if r.blob != nil {
			end = min(end, r.blob.end(r.blob.last()))
		}
		if err := r.fetch(ctx, 0, end+1); err != nil {
			return err
		}
		return r.openHeader(ctx)
	}

	first, last := off/segmentSize, (off+int64(len(p))-1)/segmentSize
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.bringHeader(gctx, brought) })
	group.Go(func() error { return r.fetch(gctx, size+first*storedSegment, size+(last+1)*storedSegment+1) })
	return group.Wait()
}

// bringHeader makes the header known, by a request of its own unless another read brings it.
func (r *reading) bringHeader(ctx context.Context, brought <-chan struct{}) error {
	if brought != nil {
		select {
		case <-brought:
		case <-ctx.Done():
			return ctx.Err()
		}
		if r.blob = r.s.headers.get(r.name); r.blob != nil {
			return nil
		}
	}
	header := make([]byte, headerSizeOf(typeOf(r.name)))
	n, err := r.s.b.Get(ctx, r.name, header, 0)
	if err != nil {
		return err
	}
	r.header = header[:n]
	return r.openHeader(ctx)
}

// fetch reads stored bytes.
func (r *reading) fetch(ctx context.Context, from, to int64) error {
	r.buf, r.from, r.to = buffers.Get().(*buffer), from, to
	if int64(cap(r.buf.data)) < to-from {
		r.buf.data = make([]byte, to-from)
	}
	data := r.buf.data[:to-from]
	n, err := r.s.b.Get(ctx, r.name, data, from)
	r.buf.data = data[:max(n, 0)]
	if from == 0 {
		r.header = r.buf.data
	}
	return err
}

// fetchMore makes the range of stored bytes end at to. It reads the missing bytes, if the blob did not end before.
func (r *reading) fetchMore(ctx context.Context, to int64) error {
	have := int64(len(r.buf.data))
	if to <= r.to || r.from+have < r.to {
		r.buf.data = r.buf.data[:min(have, to-r.from)]
		return nil
	}
	r.buf.data = append(r.buf.data, make([]byte, to-r.to)...)
	n, err := r.s.b.Get(ctx, r.name, r.buf.data[have:], r.to)
	r.buf.data = r.buf.data[:have+int64(max(n, 0))]
	r.to = to
	return err
}

// openHeader authenticates the header.
func (r *reading) openHeader(ctx context.Context) (err error) {
	t := typeOf(r.name)
	size := int(headerSizeOf(t))
	if len(r.header) < size {
		return errTooShort
	}
	header := r.header[:size]
	if known := r.s.headers.get(r.name); known != nil && bytes.Equal(known.header, header) {
		r.blob = known
		return nil
	}
	r.blob, err = r.s.openHeader(ctx, r.name, t, bytes.Clone(header))
	return err
}

// openHeader authenticates the header of a blob and remembers it.
func (s *Store) openHeader(ctx context.Context, name string, t remote.Type, header []byte) (*blob, error) {
	k, err := parseHeader(t, header)
	if err != nil {
		return nil, err
	}
	if s.isWrongEpoch(name, header, k.Epoch) {
		return nil, errCommitment
	}
	keys, err := s.keysOf(ctx, k)
	if err != nil {
		return nil, err
	}
	b, err := openBlob(keys.Remote, keys.Of(k.Epoch), name, header)
	if err != nil {
		return nil, err
	}
	if err := s.learn(keys); err != nil { // the header is authentic, so the keyset is
		return nil, err
	}
	s.headers.put(name, b)
	return b, nil
}

// isWrongEpoch reports whether the key of an epoch is not known, and only the epoch of the header is
// damaged: a known key made the rest. Then no key is missing.
func (s *Store) isWrongEpoch(name string, header []byte, epoch uint32) bool {
	keys, _ := s.known()
	if !keys.Of(epoch).IsZero() {
		return false
	}
	for i, key := range keys.Epochs {
		if commits(keys.Remote, key, name, header, uint32(i+1)) {
			return true
		}
	}
	return false
}

// decrypt decrypts segments, which are in the buffer, and copies the plain bytes at off to p.
func (r *reading) decrypt(p []byte, off, first, last int64) error {
	b := r.blob
	for i := first; i <= last; i++ {
		at := i * segmentSize // in the plain blob
		length := b.lengthOf(i)
		text := r.buf.data[b.size+i*storedSegment-r.from:][:length]
		begin := at - off // in p
		inside := begin >= 0 && begin+segmentSize <= int64(len(p))
		dst := text[:0]
		if inside {
			dst = p[begin : begin : begin+segmentSize]
		}
		plain, err := b.aead.Open(dst, b.nonce(i), text, nil)
		if err != nil {
			return fmt.Errorf("segment %d is not authentic", i)
		}
		if inside {
			continue
		}
		if have := b.plain - at; have < int64(len(plain)) && !isZero(plain[max(have, 0):]) {
			return errors.New("its padding is not zero")
		}
		if begin < 0 {
			copy(p, plain[-begin:])
		} else if begin < int64(len(p)) {
			copy(p[begin:], plain)
		}
	}
	return nil
}

func isZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// maxHeaders is the number of headers that are kept at least, with half a kilobyte of memory each. At most twice as
// many are kept.
const maxHeaders = 2048

// headers keeps authenticated headers by the names of blobs.
type headers struct {
	mu      sync.Mutex
	recent  map[string]*blob
	older   map[string]*blob
	reading map[string]chan struct{} // closed when the read that brings the header ends
}

// begin notes that a read brings a header, until the caller calls end. If another read does so already, end is nil, and
// brought is closed when that has the header or has failed.
func (h *headers) begin(name string) (brought <-chan struct{}, end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if under := h.reading[name]; under != nil {
		return under, nil
	}
	if h.reading == nil {
		h.reading = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	h.reading[name] = done
	return nil, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.reading, name)
		close(done)
	}
}

func (h *headers) get(name string) *blob {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.recent[name]; b != nil {
		return b
	}
	b := h.older[name]
	if b != nil {
		h.add(name, b)
	}
	return b
}

func (h *headers) put(name string, b *blob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(name, b)
}

// add adds a header to the recent ones. The caller holds h.mu.
func (h *headers) add(name string, b *blob) {
	if len(h.recent) >= maxHeaders {
		h.older, h.recent = h.recent, nil
	}
	if h.recent == nil {
		h.recent = map[string]*blob{}
	}
	h.recent[name] = b
}

func (h *headers) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.recent, name)
	delete(h.older, name)
}
