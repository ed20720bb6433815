package show

import (
	"encoding/json"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

func TestChangeCounts(t *testing.T) {
	file := &object.Entry{Type: object.TypeFile}
	link := &object.Entry{Type: object.TypeSymlink}
	folder := &object.Entry{Type: object.TypeDir}
	changes := []tree.Change{
		{New: file}, {New: folder}, {Old: file}, {Old: file, New: file}, {Old: file, New: link},
		{Old: folder, New: folder}, {Old: file, New: file, From: "x", Similarity: 90},
	}
	letters := ""
	for _, c := range changes {
		letters += string(c.Letter())
	}
	if letters != "AADMTMR" {
		t.Errorf("letters are %s", letters)
	}
	for i, want := range map[int]string{
		0: "0 files changed",
		1: "1 file changed, 1 added",
		2: "1 file and 1 folder changed, 2 added",
		7: "5 files and 2 folders changed, 2 added, 3 modified, 1 deleted, 1 renamed",
	} {
		if got := CountChanges(changes[:i]).String(); got != want {
			t.Errorf("the first %d: %q, want %q", i, got, want)
		}
	}
	if got, want := CountChanges(changes[1:2]).String(), "1 folder changed, 1 added"; got != want {
		t.Errorf("a folder: %q, want %q", got, want)
	}
}

func TestChangeCountsJSON(t *testing.T) {
	data, err := json.Marshal(ChangeCounts{Added: 1, Modified: 2, Deleted: 3, Renamed: 4, Unknown: true})
	if want := `{"added":1,"modified":2,"deleted":3,"renamed":4}`; err != nil || string(data) != want {
		t.Errorf("%s, %v, want %s", data, err, want)
	}
}
