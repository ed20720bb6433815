package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestServeKilled kills servers while clients write by WebDAV. A restarted server has all
// confirmed changes. When it ends, it commits them.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	rnd := objecttest.Rand(90)
	s := newShell(t)
	s.kist("init", "-q")
	s.write(files{"first": "first"})
	s.kist("add", "-q", ".")
	s.kist("commit", "-q", "-m", "first")
	s.kist("branch", "-q", "team")

	const writers = 3
	var mu sync.Mutex
	confirmed, tried := map[string]string{}, map[string]string{} // by name; tried has the last one
	for round := range objecttest.Rounds(t, 2) {
		p := s.serve("--write", "--listen", "127.0.0.1:0", "--commit-after", fmt.Sprintf("%dms", 1+rnd.IntN(50)))
		base := p.url + "dav/branches/team/"
		for name, text := range confirmed {
			got, err := get(base + name)
			if err != nil || got != text && got != tried[name] {
				t.Errorf("round %d: %s is %.60q, %v, want %.60q or %.60q", round, name, got, err, text, tried[name])
			}
			confirmed[name] = got
		}

		var wg sync.WaitGroup
		left := 1 + rnd.IntN(40) // confirmed changes until the kill
		for w := range writers {
			large := strings.Repeat(fmt.Sprint(rnd.Uint64()), 20_000) // too large for the journal
			wg.Go(func() {
				for i := 0; ; i++ {
					name, text := fmt.Sprintf("file-%d-%d", w, i%7), fmt.Sprintf("round %d, change %d", round, i)
					if i%10 == 9 {
						text = large + text
					}
					mu.Lock()
					tried[name] = text
					mu.Unlock()
					if !put(base+name, text) {
						return // the server is dead
					}
					mu.Lock()
					confirmed[name] = text
					if left--; left == 0 {
						p.Process.Kill()
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		p.Wait()
		s.verify()
	}

	s.serve("--write", "--listen", "127.0.0.1:0").end(t, syscall.SIGTERM)
	for name, text := range confirmed {
		if got := s.kist("cat", "team:"+name); got != text && got != tried[name] {
			t.Errorf("%s is %.60q, want %.60q or %.60q", name, got, text, tried[name])
		}
	}
	if left, err := os.ReadDir(s.path(".kist/pending")); err != nil || len(left) > 0 {
		t.Errorf("the journal has %v, %v, want nothing", left, err)
	}
	s.verify()
}

// get returns the body of a successful GET.
func get(url string) (string, error) {
	res, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(body), err
}

// put stores a file on a server and reports whether the server confirmed it.
func put(url, text string) bool {
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(text))
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode/100 == 2
}
