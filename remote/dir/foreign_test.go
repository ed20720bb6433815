package dir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// A folder with other files does not become a remote. Files of the operating system do
// not matter, nor do files that were added to a remote later.
func TestForeign(t *testing.T) {
	for _, test := range []struct {
		present []string
		refused bool
	}{
		{nil, false},
		{[]string{"lost+found/", ".Trash-1000/", ".DS_Store", "System Volume Information/"}, false},
		{[]string{"probe/", "tmp/", "root/"}, false}, // of an unfinished remote
		{[]string{"holiday.jpg"}, true},
		{[]string{"2019/", "packs/"}, true},
		{[]string{".git/"}, true},
		{[]string{".kist/"}, true},
		{[]string{"kist.json", "README.txt"}, false},
	} {
		root := t.TempDir()
		for _, name := range test.present {
			path := filepath.Join(root, name)
			var err error
			if name[len(name)-1] == '/' {
				err = os.Mkdir(path, 0o777)
			} else {
				err = os.WriteFile(path, nil, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}

		before, _ := os.ReadDir(root)
		b := openDir(t, root)
		err := put(b, "packs/ab/1", "x")
		after, _ := os.ReadDir(root)
		if test.refused {
			wantKind(t, "put", err, remote.ErrUnsupported, "has other files in it")
			if len(after) != len(before) {
				t.Errorf("%q: put changed the folder: %v", test.present, after)
			}
		} else if err != nil {
			t.Errorf("%q: put: %v", test.present, err)
		}
	}
}
