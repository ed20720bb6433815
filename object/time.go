package object

import (
	"cmp"
	"time"
)

// TimeOf returns t as it is recorded in objects; time.Time{} gives the zero Time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Time returns t in UTC; the zero Time gives time.Time{}.
func (t Time) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Sec, int64(t.Nsec)).UTC()
}

// IsZero reports whether t is the zero Time, which stands for no time.
func (t Time) IsZero() bool { return t == Time{} }

// Compare returns a negative number if t is before u, a positive one if it is
// after u, and 0 if they are equal.
func (t Time) Compare(u Time) int {
	return cmp.Or(cmp.Compare(t.Sec, u.Sec), cmp.Compare(t.Nsec, u.Nsec))
}

// lastYear is the last year that RFC 3339, and so JSON, can write.
const lastYear = 9999

// When returns the time of s in its own zone. A year that RFC 3339 cannot write
// becomes the nearest one that it can: nobody has committed then.
func (s Signature) When() time.Time {
	return Writable(s.Time.Time().In(time.FixedZone("", int(s.Zone)*60)))
}

// Writable returns at, or the nearest time in its zone that RFC 3339 can write.
func Writable(at time.Time) time.Time {
	switch {
	case at.Year() > lastYear:
		return time.Date(lastYear, 12, 31, 23, 59, 59, 0, at.Location())
	case at.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, at.Location())
	}
	return at
}
