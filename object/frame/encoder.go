package frame

import (
	"bytes"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// minCompress is the length below which data stays raw, because compression
// would gain only a few bytes.
const minCompress = 64

// Level says how hard an [Encoder] tries.
type Level uint8

// The levels, on typical text: about 1x, 0.7x, 0.4x and 0.1x the speed for 0, 5,
// 8 and 13 % less bytes.
const (
	Fastest Level = iota // for everyday use
	Default
	Better // for data that is written once and read often
	Best   // for data that is written while nobody waits; needs 37 MiB for each running encoder
)

var zstdLevels = [...]zstd.EncoderLevel{
	Fastest: zstd.SpeedFastest,
	Default: zstd.SpeedDefault,
	Better:  zstd.SpeedBetterCompression,
	Best:    zstd.SpeedBestCompression,
}

// Encoder makes stored values. It keeps its buffers for the next call and is
// safe for concurrent use; concurrent calls do not wait for each other.
type Encoder struct {
	workers idle[*worker]
}

// bestWindow is the window at level Best, which needs much memory without that.
const bestWindow = 2 << 20

// NewEncoder returns an Encoder for a level; an unknown one is [Best].
func NewEncoder(level Level) *Encoder {
	// One encoder a worker and no stream: no goroutines. Literals are compressed
	// even where there are no matches (base64, sensor data); the probe keeps that
	// cheap for what does not compress. The checksum is left out because every
	// object is hashed when read.
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

// allEncoder is the one method of [zstd.Encoder] that is used here.
type allEncoder interface {
	EncodeAll(src, dst []byte) []byte
}

func newEncoder(newZstd func() allEncoder) *Encoder {
	e := &Encoder{}
	e.workers.make = func() *worker { return &worker{zstd: newZstd()} }
	return e
}

// Append appends the value for src to dst and returns the extended slice,
// which is at most len(src)+MaxOverhead bytes longer. Src is compressed where
// that saves more than about 3 %, and then was decoded again and compared;
// otherwise it is kept raw. Append does not keep or change src, which must not
// overlap the spare capacity of dst. It allocates nothing if dst has room for
// len(src)+[AppendSlack](len(src)) bytes.
func (e *Encoder) Append(dst, src []byte) []byte {
	if len(src) >= minCompress && len(src) <= MaxSize {
		w := e.workers.get()
		out, state := w.append(dst, src)
		if state != broken {
			e.workers.put(w)
		}
		if state == compressed {
			return out
		}
	}
	dst = slices.Grow(dst, 1+len(src))
	dst = append(dst, codecRaw)
	return append(dst, src...)
}

// AppendSlack returns the spare capacity beyond n that [Encoder.Append] may
// use while it works on n bytes.
func AppendSlack(n int) int { return 64 + n>>10 }

// state is what came of an attempt to compress.
type state uint8

const (
	compressed state = iota // verified, and worth it
	notWorth                // keep it raw
	broken                  // the encoder failed: keep it raw, use another encoder
)

// declareSize makes a frame tell that it has size bytes, if that is fewer than
// 256: the library then leaves it out, unless all frames are single segments,
// which those of more than MaxWindow must not be. Instead of a window it has the
// size.
func declareSize(frame []byte, size int) {
	const descriptor, window = 4, 5
	if size < 256 && len(frame) > window && frame[descriptor] == 0 {
		frame[descriptor] = 1 << 5
		frame[window] = byte(size)
	}
}

// worker is what one call uses at a time.
type worker struct {
	zstd   allEncoder
	sample []byte // the probe's input
	out    []byte // the probe's output
	check  []byte // the compressed data, decoded again

	matcher matcher
	script  []byte // of a patch
}

// append appends the compressed value for src to dst, unless it does not pay.
func (w *worker) append(dst, src []byte) (out []byte, s state) {
	defer func() {
		if recover() != nil {
			out, s = dst, broken
		}
	}()
	if !w.probe(src) {
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
