package objecttest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// CheckVectors fails the test if a file of test vectors is not the indented JSON
// of vectors. With update, it writes the file first. It returns the content of the
// file.
func CheckVectors(t testing.TB, file string, vectors any, update bool) []byte {
	t.Helper()
	want, err := json.MarshalIndent(vectors, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the vectors of the test; a changed format needs a new version, a new vector needs -update", file)
	}
	return got
}
