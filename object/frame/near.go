package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// MaxDistance is the most bytes between the beginnings of a near patch and of
// the value that it is made from.
const MaxDistance = 1 << 30

// Near is the place of the base of a near patch: in the same file, before the
// patch.
type Near struct {
	Distance int // bytes back from the beginning of the patch to that of the base's stored value
	Stored   int // bytes of that value, at most Distance
	Raw      int // bytes of the base, at most MaxPatch
}

// check returns an error if n cannot be the place of a base.
func (n Near) check() error {
	switch {
	case n.Raw > MaxPatch:
		return &Error{ReasonLength, fmt.Errorf("made from %d bytes", n.Raw)}
	case n.Raw <= 0 || n.Stored <= 0 || n.Stored > n.Raw+MaxOverhead:
		return &Error{ReasonHeader, fmt.Errorf("made from %d bytes, stored as %d", n.Raw, n.Stored)}
	case n.Distance < n.Stored || n.Distance > MaxDistance:
		return &Error{ReasonHeader, fmt.Errorf("made from %d bytes, %d before it", n.Stored, n.Distance)}
	}
	return nil
}

// IsNear reports whether value says that it is a near patch.
func IsNear(value []byte) bool { return len(value) > 0 && value[0] == codecNear }

// NearBase returns where the base of the near patch in value is: what [DecodePatch]
// wants is the object in there. Its kind is that of the patched object. An error
// is an [*Error].
func NearBase(value []byte) (Near, error) {
	if !IsNear(value) {
		_, err := baseEnd(value)
		if err == nil {
			err = &Error{ReasonCodec, fmt.Errorf("codec %d, want a near patch", value[0])}
		}
		return Near{}, err
	}
	n, _, err := nearBase(value)
	return n, err
}

// nearBase is NearBase, and returns where in value the length of the object
// begins.
func nearBase(value []byte) (near Near, end int, err error) {
	end = 1
	var numbers [3]int
	for i, what := range [...]string{"distance", "stored length of the base", "length of the base"} {
		v, n, err := patchNumber(value[end:], what)
		if err != nil {
			return Near{}, 0, err
		}
		numbers[i] = int(min(v, MaxDistance+1))
		end += n
	}
	near = Near{numbers[0], numbers[1], numbers[2]}
	return near, end, near.check()
}

// AppendNear appends to dst the patch in value, whose base is named by its ID, as
// one whose base is at n. Value is not changed, and must not overlap the spare
// capacity of dst. An error is an [*Error]: value is no such patch, or n is no
// place; dst is then returned as it was. The script is not looked at.
func AppendNear(dst, value []byte, n Near) ([]byte, error) {
	if IsNear(value) {
		return dst, &Error{ReasonCodec, fmt.Errorf("codec %d, want %d", value[0], codecPatch)}
	}
	if _, _, err := patchSize(value); err != nil {
		return dst, err
	}
	if err := n.check(); err != nil {
		return dst, err
	}
	dst = append(dst, codecNear)
	for _, v := range [...]int{n.Distance, n.Stored, n.Raw} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return append(dst, value[patchHeader:]...), nil
}

// AppendFar appends to dst the near patch in value as one whose base is named by
// its ID, as [AppendNear] wants it. Value is not changed, and must not overlap the
// spare capacity of dst. An error is an [*Error]: value is no near patch; dst is
// then returned as it was. The script is not looked at.
func AppendFar(dst, value []byte, base object.ID) ([]byte, error) {
	if _, err := NearBase(value); err != nil {
		return dst, err
	}
	if _, _, err := patchSize(value); err != nil {
		return dst, err
	}
	end, err := baseEnd(value)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, codecPatch), base[:]...)
	return append(dst, value[end:]...), nil
}
