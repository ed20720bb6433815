package volume

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// Names are ULIDs in upper case.
func TestNames(t *testing.T) {
	random := []byte{0, 1, 2, 3, 0xfc, 0xfd, 0xfe, 0xff, 0x80, 0x7f}
	for millis, want := range map[int64]string{
		0:             "0000000000000G40ZWZQZFZ03Z",
		1469922850259: "01ARZ3NDEK000G40ZWZQZFZ03Z",
		maxMillis:     "7ZZZZZZZZZ000G40ZWZQZFZ03Z",
	} {
		at := time.UnixMilli(millis)
		name, err := newName(at.Add(time.Microsecond), bytes.NewReader(random))
		if err != nil || name != want {
			t.Errorf("time %d: name %q, error %v, want %q", millis, name, err, want)
		}
		if !isName(want) || !nameTime(want).Equal(at) {
			t.Errorf("%q: name %t, time %v, want %v", want, isName(want), nameTime(want), at)
		}
	}

	for _, millis := range []int64{-1, maxMillis + 1} {
		if name, err := newName(time.UnixMilli(millis), bytes.NewReader(random)); err == nil {
			t.Errorf("time %d: name %q, want an error", millis, name)
		}
	}
	if _, err := newName(time.UnixMilli(0), bytes.NewReader(random[:9])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("nine random bytes: error %v", err)
	}

	name := "01ARZ3NDEK000G40ZWZQZFZ03Z"
	for _, bad := range []string{
		"", name[1:], name + "0", "8" + name[1:], strings.ToLower(name), name[:25] + "U", name[:25] + "\n", name + "\n", name + "=", " " + name[1:],
		"0000000" + name[1:], "tmp-" + name,
	} {
		if isName(bad) || !nameTime(bad).IsZero() {
			t.Errorf("%q is a name of the time %v", bad, nameTime(bad))
		}
	}
}
