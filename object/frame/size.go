package frame

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Size returns how many bytes of data a value says it holds. That is what
// [Decode] wants as rawLen where it is not known from elsewhere; nothing but
// the value's header was looked at. An error is an [*Error].
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
			return 0, &Error{ReasonHeader, errors.New("of unknown length")}
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
