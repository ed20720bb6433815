package cli

import (
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/remote"
)

// shortSecret is the length in bytes up to which a secret is not looked for in
// messages: it would be found in ordinary words.
const shortSecret = 3

// secrets hides in messages the passwords that kist knows of: those of URLs on
// the command line and in the configuration, and those in the environment. A
// message may repeat a URL in any form, such as cut up, or as a path. So not
// URLs are looked for, but the passwords in them. It is safe for concurrent
// use.
type secrets struct {
	mu       sync.Mutex
	replacer *strings.Replacer // nil: nothing to hide
	known    []string
}

// learn has the passwords in texts hidden from now on.
func (s *secrets) learn(texts ...string) {
	if s == nil {
		return
	}
	for _, text := range texts {
		s.add(remote.Secrets(text)...)
	}
}

// add has words hidden from now on.
func (s *secrets) add(words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.known)
	for _, word := range words {
		forms := []string{word, strings.Trim(strconv.Quote(word), `"`), strings.Trim(quoteArg(word), `"`), printable(word)}
		if plain, err := url.PathUnescape(word); err == nil {
			forms = append(forms, plain)
		}
		for _, form := range forms {
			if len(form) > shortSecret && !slices.Contains(s.known, form) {
				s.known = append(s.known, form)
			}
		}
	}
	if len(s.known) == before {
		return
	}

	// The replacer takes the first that fits: what contains another comes first.
	slices.SortFunc(s.known, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, word := range s.known {
		pairs = append(pairs, word, "***")
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// hide returns a text without the secrets.
func (s *secrets) hide(text string) string {
	if s == nil {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// writer returns a writer of messages to w. Each message is written by one
// call.
func (s *secrets) writer(w io.Writer) io.Writer { return &secretsWriter{s, w} }

type secretsWriter struct {
	secrets *secrets
	w       io.Writer
}

func (w *secretsWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.secrets.hide(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
