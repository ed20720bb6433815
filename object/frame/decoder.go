package frame

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

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

// checkHeader looks at what a zstd frame says of itself, before anything is
// allocated for it.
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

// decodeAll decodes payload into the spare capacity of dst. A decoder that
// panics on damaged data is an error like any other.
func decodeAll(d *zstd.Decoder, dst, payload []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decoder panicked: %v", r)
		}
	}()
	return d.DecodeAll(payload, dst)
}
