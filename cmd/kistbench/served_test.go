package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestRequest(t *testing.T) {
	dir := t.TempDir()
	b := newTestBench(t, dir, "-restic=", "-kopia=", "-borg=", "-git=")
	f := &folder{dataSet: manySet(150), path: filepath.Join(dir, "data")}
	check(t, f.prepare(t.Context()))
	check(t, os.Rename(filepath.Join(f.path, "d000"), filepath.Join(f.path, "a folder#1")))
	f.touched = f.touched.Add(-minAge)
	e := b.event(f, here, nil)
	check(t, e.run(t.Context(), 1, func(ctx context.Context) error {
		if _, err := e.contestants[0].save(ctx, "first"); err != nil {
			return err
		}
		return e.request(ctx)
	}))
	for _, tool := range []string{kistTool, floorTool} {
		if got := b.report.samples("many", workRequest, tool); len(got) != 1 || got[0].Seconds <= 0 || got[0].Round != 1 {
			t.Errorf("requests to %s: %+v", tool, got)
		}
	}
}

func TestRequestOfAnotherContent(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	check(t, os.WriteFile(filepath.Join(dir, "a"), []byte("content"), 0o666))
	if s, err := measureRequests(t.Context(), server.URL+"/a", []byte("content")); err != nil || s.Seconds <= 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for file, content := range map[string]string{"/a": "other", "/missing": "content"} {
		if _, err := measureRequests(t.Context(), server.URL+file, []byte(content)); err == nil {
			t.Errorf("%s: a wrong answer is accepted", file)
		}
	}
}
