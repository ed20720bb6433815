package bisect

import (
	"reflect"
	"testing"
)

// FuzzDecode checks that an accepted state is unchanged after encode and decode.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "start main\n\n", "start main\nterms new\nchecked\npath \"a/b\"\n\n# a log\nkist bisect start\n",
		"start ../x\n\n", "start main\npath \"../x\"\n\n", "start main\npath `a`\n\n", "start main\nstart other\n\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(s.encode())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v became %+v: %v", s, again, err)
		}
	})
}
