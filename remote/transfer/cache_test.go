package transfer

import (
	"bytes"
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
		if p, summed, err := decodeNote[rootlog.Position](data); err == nil && !summed {
			if again, err := json.Marshal(p); err != nil || !bytes.Equal(again, data) {
				t.Error("the decoded note has another encoding")
			}
		}
		_, _, _ = decodeNote[binding](data)
		_ = rootlog.CheckCached(data)
	})
}
