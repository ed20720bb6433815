package operation

import (
	"reflect"
	"strings"
	"testing"
)

// A state that parse accepts is the same after it was written and parsed again.
func FuzzParse(f *testing.F) {
	id := strings.Repeat("ab", 32)
	for _, text := range []string{
		"", "rebase 0 refs/heads/main\nstart " + id + "\nonto " + id + "\npick " + id + "\n",
		"cherry-pick 1 \nstart " + id + "\nleft " + id + "\npick " + id + "\npick " + id + "\n",
		"revert 0 \nstart " + id + "\nrevert " + id + "\n", "revert 0 \nstart " + id, "merge 0 \nstart " + id + "\n",
		"rebase -1 refs/heads/../x\nstart " + id + "\n", "rebase 0 refs/heads/main\nstart " + id + "\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		again, err := parse(s.sequenceText())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v is read back as %+v, error %v", s, again, err)
		}
	})
}
