// Package frame turns an object's bytes into the value that a store keeps, and
// back. A value is one byte for the codec, then the payload: raw, compressed with
// zstd if that saves space, or a patch of another object. The ID of that object, or
// the place of its value, names it. No other package imports a compression library.
//
// The format is described in docs/format/frame.md.
package frame

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/kist-vcs/kist/object"
)

// Limits of compressed values.
const (
	// MaxSize is the largest size of data that is compressed, and of the data of a
	// compressed value. Longer data is kept raw.
	MaxSize = object.MaxChunkSize

	// MaxWindow is the largest zstd window a decoder accepts.
	MaxWindow = 8 << 20

	// MaxOverhead is the largest number of bytes by which a value is longer than its data.
	MaxOverhead = 1
)

// The codecs. Their values are part of the format.
const (
	codecRaw   = 0
	codecZstd  = 1
	codecPatch = 2
	codecNear  = 3
)

// The reasons of an [Error]. They do not change.
const (
	ReasonEmpty   = "empty"         // no codec byte
	ReasonCodec   = "unknown-codec" // a codec byte that this version does not know
	ReasonHeader  = "bad-header"    // no zstd frame, a forbidden form of one, or no patch
	ReasonWindow  = "window"        // the frame asks for a window above MaxWindow
	ReasonLength  = "wrong-length"  // the length of the value, or the one in its header, is not the expected one
	ReasonPayload = "bad-payload"   // the compressed bytes, or the script of a patch, do not decode
	ReasonPatch   = "patch"         // the value is a patch where none is allowed
)

// Error is the error for a value that cannot be decoded. It matches [object.ErrCorrupt].
type Error struct {
	Reason string // one of the Reason constants
	Err    error  // details, or nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return "decode stored value: " + e.Reason
	}
	return fmt.Sprintf("decode stored value: %s: %v", e.Reason, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *Error) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the details.
func (e *Error) Unwrap() error { return e.Err }

// Raw returns the data of an uncompressed value, as a part of the value. Ok is false for
// every other value.
func Raw(value []byte) (payload []byte, ok bool) {
	if len(value) == 0 || value[0] != codecRaw {
		return nil, false
	}
	return value[1:], true
}

// Decode appends the data of a value to dst, and returns the extended slice. The data must
// have exactly rawLen bytes. Decode refuses a patch: see [DecodePatch]. After an error,
// which is an [*Error], it returns dst unchanged. It is safe for concurrent use.
//
// The memory that Decode allocates depends on rawLen and not on the value. It allocates
// nothing if dst has room for rawLen+DecodeSlack bytes. Value and the spare capacity of dst
// must not overlap.
func Decode(dst, value []byte, rawLen int) ([]byte, error) {
	if len(value) == 0 {
		return dst, &Error{Reason: ReasonEmpty}
	}
	payload := value[1:]
	switch value[0] {
	case codecRaw:
		if len(payload) != rawLen {
			return dst, &Error{ReasonLength, fmt.Errorf("%d bytes, want %d", len(payload), rawLen)}
		}
		return append(dst, payload...), nil
	case codecZstd:
		return decodeZstd(dst, payload, rawLen)
	case codecPatch, codecNear:
		return dst, &Error{Reason: ReasonPatch}
	default:
		return dst, &Error{ReasonCodec, fmt.Errorf("codec %d", value[0])}
	}
}

// Size returns the number of bytes of data in a value, for use as the rawLen of [Decode]. It
// reads only the header, so decoding may still fail. An error is an [*Error].
func Size(value []byte) (int, error) {
	if len(value) == 0 {
		return 0, &Error{Reason: ReasonEmpty}
	}
	switch value[0] {
	case codecRaw:
		return len(value) - 1, nil
	case codecZstd:
		var h zstd.Header
		if err := h.Decode(value[1:]); err != nil {
			return 0, &Error{ReasonHeader, err}
		}
		if !h.HasFCS {
			return 0, &Error{ReasonHeader, errors.New("unknown length")}
		}
		if h.FrameContentSize > MaxSize {
			return 0, &Error{ReasonLength, fmt.Errorf("frame of %d bytes", h.FrameContentSize)}
		}
		return int(h.FrameContentSize), nil
	case codecPatch, codecNear:
		n, _, err := patchSize(value)
		return n, err
	default:
		return 0, &Error{ReasonCodec, fmt.Errorf("codec %d", value[0])}
	}
}

// The probe compresses a sample of data of at least probeFrom bytes: 16 KiB from 8
// places. That takes a few microseconds, whatever the length.
const (
	probeFrom   = 64 << 10
	probePlaces = 8
	probeWindow = 2 << 10
)

// isWorthIt reports whether src may be worth compressing. Samples of media, archives and
// encrypted data shrink by 0 to 1 %, so such data is kept raw.
func (w *worker) isWorthIt(src []byte) bool {
	if len(src) < probeFrom {
		return true
	}
	w.sample = w.sample[:0]
	step := (len(src) - probeWindow) / (probePlaces - 1)
	for i := range probePlaces {
		w.sample = append(w.sample, src[i*step:i*step+probeWindow]...)
	}
	w.out = w.zstd.EncodeAll(w.sample, w.out[:0])
	return len(w.out) < len(w.sample)-len(w.sample)>>6
}
