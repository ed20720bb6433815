package remote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestNames(t *testing.T) {
	const no, blob, record = 0, 1, 2
	tests := map[string]int{
		"a": blob, "packs/ab/0123": blob, "a..b": blob, "-": blob, "_.": blob, "root": blob, "root/a/b": blob, "xroot/1": blob,
		strings.Repeat("a", 200): blob, strings.Repeat("a/", 99) + "b": blob,
		"kist.json": record, "probe/x/kist.json": record, "root/1": record, "probe/x/root/00000000000000000001": record,
		"": no, "/": no, "/a": no, "a/": no, "a//b": no, ".": no, "..": no, "a/../b": no, ".a": no, "a/.b": no,
		"A": no, "ä": no, "a b": no, "a\\b": no, "a\x00": no, "a:b": no, "a*": no, "root/": no,
		strings.Repeat("a", 201): no,
	}

	for name, want := range tests {
		for what, err := range map[int]error{blob: remote.CheckBlob(name), record: remote.CheckRecord(name, 10)} {
			if (err == nil) != (want == what) || err != nil && !errors.Is(err, remote.ErrName) {
				t.Errorf("name %.50q as %d: error %v, want %d", name, what, err, want)
			}
		}
		if err := remote.CheckPrefix(name + "/"); (err == nil) != (want != no) {
			t.Errorf("CheckPrefix(%.50q) = %v", name+"/", err)
		}
		if err := remote.CheckPrefix(name); (err == nil) != (name == "" || name == "root/" || name == "a/") {
			t.Errorf("CheckPrefix(%.50q) = %v", name, err)
		}
	}

	if err := remote.CheckRecord("root/1", remote.MaxRecord+1); err == nil || errors.Is(err, remote.ErrName) {
		t.Errorf("record larger than MaxRecord: error %v", err)
	}
	if err := remote.CheckRecord("root/1", remote.MaxRecord); err != nil {
		t.Errorf("record of MaxRecord bytes: %v", err)
	}
}
