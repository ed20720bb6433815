package frame

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// minCompress is the length below which data is kept raw, because compression
// would gain only a few bytes.
const minCompress = 64

// Level is the effort of an [Encoder].
type Level uint8

// The levels, on typical text: about 1x, 0.7x, 0.4x and 0.1x the speed for 0, 5,
// 8 and 13 % less bytes.
const (
	Fastest Level = iota // for everyday use
	Default
	Better // for data that is written once and read often
	Best   // for data that is written in the background; needs 37 MiB for each running encoder
)

var zstdLevels = [...]zstd.EncoderLevel{
	Fastest: zstd.SpeedFastest,
	Default: zstd.SpeedDefault,
	Better:  zstd.SpeedBetterCompression,
	Best:    zstd.SpeedBestCompression,
}

// Encoder makes stored values. It keeps its buffers for the next call. It is safe for
// concurrent use, and concurrent calls do not wait for each other.
type Encoder struct {
	workers idle[*worker]
}

// bestWindow is the window at level Best, which needs much more memory with the default.
const bestWindow = 2 << 20

// NewEncoder returns an Encoder for a level. An unknown level counts as [Best].
func NewEncoder(level Level) *Encoder {
	// Each worker has one encoder without a stream, so there are no goroutines. Literals are
	// compressed even without matches (base64, sensor data); the probe avoids the cost for
	// data that does not compress. There is no checksum, because every read hashes the object.
	options := []zstd.EOption{
		zstd.WithEncoderLevel(zstdLevels[min(level, Best)]),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithLowerEncoderMem(true),
	}
	if level >= Best {
		options = append(options, zstd.WithWindowSize(bestWindow))
	}
	return newEncoder(func() allEncoder {
		e, err := zstd.NewWriter(nil, options...)
		if err != nil {
			panic("frame: " + err.Error()) // the options are constants
		}
		return e
	})
}

// allEncoder is the part of [zstd.Encoder] that this package uses. Tests replace it by
// encoders with bugs.
type allEncoder interface {
	EncodeAll(src, dst []byte) []byte
}

func newEncoder(newZstd func() allEncoder) *Encoder {
	e := &Encoder{}
	e.workers.make = func() *worker { return &worker{zstd: newZstd()} }
	return e
}

// Append appends the value for src to dst and returns the extended slice, which is at most
// len(src)+MaxOverhead bytes longer. It compresses src if that saves more than about 3 %,
// and decodes and compares the result. Otherwise src is kept raw.
//
// Append does not keep or change src, which must not overlap the spare capacity of dst. It
// allocates nothing if dst has room for len(src)+[AppendSlack](len(src)) bytes.
func (e *Encoder) Append(dst, src []byte) []byte {
	if len(src) >= minCompress && len(src) <= MaxSize {
		w := e.workers.get()
		out, state := w.appendCompressed(dst, src)
		if state != broken {
			e.workers.put(w)
		}
		if state == compressed {
			return out
		}
	}
	return AppendRaw(dst, src)
}

// AppendRaw appends to dst the value that holds src uncompressed.
func AppendRaw(dst, src []byte) []byte {
	dst = append(slices.Grow(dst, 1+len(src)), codecRaw)
	return append(dst, src...)
}

// AppendSlack returns the number of bytes beyond n that [Encoder.Append] needs in dst for
// n bytes.
func AppendSlack(n int) int { return 64 + n>>10 }

// state is the result of an attempt to compress.
type state uint8

const (
	compressed state = iota // verified, and worth it
	notWorth                // keep it raw
	broken                  // the encoder failed: keep it raw, use another encoder
)

// declareSize writes the size into the header of a frame of fewer than 256 bytes, in the
// place of the window. The library leaves out such a size, unless all frames are single
// segments. That is no option, because decoders refuse larger segments than MaxWindow.
func declareSize(frame []byte, size int) {
	const descriptor, window = 4, 5
	if size < 256 && len(frame) > window && frame[descriptor] == 0 {
		frame[descriptor] = 1 << 5
		frame[window] = byte(size)
	}
}

// worker is the encoder of one call, with its buffers.
type worker struct {
	zstd   allEncoder
	sample []byte // the probe's input
	out    []byte // the probe's output
	check  []byte // the compressed data, decoded again

	matcher matcher
	script  []byte // of a patch
}

// appendCompressed appends the compressed value for src to dst, if that saves enough.
func (w *worker) appendCompressed(dst, src []byte) (out []byte, s state) {
	defer func() {
		if recover() != nil {
			out, s = dst, broken
		}
	}()
	if !w.isWorthIt(src) {
		return dst, notWorth
	}

	n := len(dst)
	dst = slices.Grow(dst, len(src)+AppendSlack(len(src)))
	out = w.zstd.EncodeAll(src, append(dst, codecZstd))
	declareSize(out[n+1:], len(src))
	if len(out)-n > len(src)-len(src)>>5 {
		return dst, notWorth
	}

	var err error
	w.check, err = Decode(slices.Grow(w.check[:0], len(src)+DecodeSlack), out[n:], len(src))
	if err != nil || !bytes.Equal(w.check, src) {
		return dst, broken
	}
	return out, compressed
}

// DecodeSlack is the spare capacity beyond the data's own length with which
// [Decode] is fastest.
const DecodeSlack = 16

// decoders holds unused decoders.
var decoders = idle[*zstd.Decoder]{make: newDecoder}

// newDecoder returns a decoder that starts no goroutines. Its memory and
// output are limited.
func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(MaxSize),
		zstd.WithDecoderMaxWindow(MaxWindow),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("frame: " + err.Error()) // the options are constants
	}
	return d
}

func decodeZstd(dst, payload []byte, rawLen int) ([]byte, error) {
	if err := checkHeader(payload, rawLen); err != nil {
		return dst, err
	}
	d := decoders.get()
	n := len(dst)
	grown := slices.Grow(dst, rawLen+DecodeSlack)
	out, err := decodeAll(d, grown[n:n:n+rawLen+DecodeSlack], payload)
	if err != nil {
		// The decoder may be in any state: it is not used again.
		return dst, &Error{ReasonPayload, err}
	}
	decoders.put(d)
	if len(out) != rawLen {
		return dst, &Error{ReasonLength, fmt.Errorf("%d bytes, want %d", len(out), rawLen)}
	}
	return grown[:n+rawLen], nil
}

// checkHeader checks the header of a zstd frame, before memory is allocated for the data.
func checkHeader(payload []byte, rawLen int) error {
	var h zstd.Header
	if err := h.Decode(payload); err != nil {
		return &Error{ReasonHeader, err}
	}
	switch {
	case h.Skippable, h.DictionaryID != 0, !h.HasFCS:
		return &Error{ReasonHeader, errors.New("skippable, with a dictionary or of unknown length")}
	case h.WindowSize > MaxWindow, h.SingleSegment && h.FrameContentSize > MaxWindow:
		return &Error{Reason: ReasonWindow}
	case rawLen < 0, rawLen > MaxSize, h.FrameContentSize != uint64(rawLen):
		return &Error{ReasonLength, fmt.Errorf("frame of %d bytes, want %d", h.FrameContentSize, rawLen)}
	}
	return nil
}

// decodeAll decodes payload into the spare capacity of dst. It returns a panic of the
// decoder, which damaged data may cause, as an error.
func decodeAll(d *zstd.Decoder, dst, payload []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decoder panicked: %v", r)
		}
	}()
	return d.DecodeAll(payload, dst)
}

// maxIdle is the largest number of unused values that are kept.
const maxIdle = 16

// idle keeps unused values that take long to make. A [sync.Pool] would lose them in every
// other garbage collection. While the heap is small, the tables of an encoder would be
// rebuilt more often than used, and each rebuild would bring the next collection nearer.
// It is safe for concurrent use.
type idle[T any] struct {
	make func() T

	mu   sync.Mutex
	list []T
}

// get returns the value that was put last, or a new one.
func (p *idle[T]) get() T {
	p.mu.Lock()
	if n := len(p.list); n > 0 {
		x := p.list[n-1]
		clear(p.list[n-1:])
		p.list = p.list[:n-1]
		p.mu.Unlock()
		return x
	}
	p.mu.Unlock()
	return p.make()
}

// put keeps x for a later call of get, unless maxIdle values are kept already.
func (p *idle[T]) put(x T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < maxIdle {
		p.list = append(p.list, x)
	}
}
