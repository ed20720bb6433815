package dir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// A folder that is used for something else does not become a remote; what
// systems leave in it does not matter, nor what is put beside a remote later.
func TestForeign(t *testing.T) {
	for _, test := range []struct {
		there   []string
		refused bool
	}{
		{nil, false},
		{[]string{"lost+found/", ".Trash-1000/", ".DS_Store", "System Volume Information/"}, false},
		{[]string{"probe/", "tmp/", "root/"}, false}, // of one that is being made
		{[]string{"holiday.jpg"}, true},
		{[]string{"2019/", "packs/"}, true},
		{[]string{".git/"}, true},
		{[]string{".kist/"}, true},
		{[]string{"kist.json", "README.txt"}, false},
	} {
		root := t.TempDir()
		for _, name := range test.there {
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
				t.Errorf("%q: something was made: %v", test.there, after)
			}
		} else if err != nil {
			t.Errorf("%q: %v", test.there, err)
		}
	}
}
