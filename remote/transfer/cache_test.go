package transfer

import (
	"encoding/json"
	"testing"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/rootlog"
)

func FuzzDecodeNote(f *testing.F) {
	for _, v := range []any{rootlog.Position{Seq: 7}, binding{URL: "memory:", Identity: []byte("{}")}} {
		data, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(disk.WithSum(data))
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := decodeNote[rootlog.Position](data); err == nil {
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := decodeNote[rootlog.Position](disk.WithSum(again)); err != nil || q != p {
				t.Errorf("the note that is written again: %v, %v", q, err)
			}
		}
		_, _ = decodeNote[binding](data)
	})
}
