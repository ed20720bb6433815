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

// shortSecret is the length, in bytes, of secrets that stay visible: they occur in ordinary
// words.
const shortSecret = 3

// secrets hides passwords in messages. It knows the passwords in the environment, and in
// URLs of the command line and of the configuration. It looks for the passwords and not for
// the URLs, because a message may have only a part of a URL, or another form of it. It is
// safe for concurrent use.
type secrets struct {
	mu       sync.Mutex
	replacer *strings.Replacer // nil: nothing to hide
	known    []string
}

// learnPasswords adds the passwords in texts.
func (s *secrets) learnPasswords(texts ...string) {
	if s == nil {
		return
	}

	for _, text := range texts {
		s.Add(remote.Secrets(text)...)
	}
}

// Add adds words to hide.
func (s *secrets) Add(words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.known)
	for _, word := range words {
		forms := []string{word, strings.Trim(strconv.Quote(word), `"`), strings.Trim(QuoteArg(word), `"`), Printable(word)}
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

	// The replacer uses the first match, so longer words come first.
	slices.SortFunc(s.known, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, word := range s.known {
		pairs = append(pairs, word, "***")
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// Hide returns text with *** in place of secrets.
func (s *secrets) Hide(text string) string {
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

// hidingWriter returns a writer to w that hides secrets. Each call writes a complete message.
func (s *secrets) hidingWriter(w io.Writer) io.Writer { return &secretsWriter{s, w} }

type secretsWriter struct {
	secrets *secrets
	w       io.Writer
}

func (w *secretsWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.secrets.Hide(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
