package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrURL means that a text is no complete URL of a remote.
var ErrURL = errors.New("not a URL of a remote")

// Env is what opening a backend needs of its surroundings.
type Env struct {
	Getenv func(string) string // settings, credentials
	Home   string              // the user's folder, for files with credentials
	Dir    string              // what relative paths are relative to
	Now    func() time.Time
	Rand   io.Reader
	Warn   func(string) // shows a warning; the text has no credentials
}

// An Opener opens the store a URL is of. Its errors have no credentials in
// them.
type Opener func(ctx context.Context, rawURL string, env Env) (Backend, error)

// A Registry has an opener for each scheme of URLs, in lower case. The one for
// "" gets plain paths.
type Registry map[string]Opener

// Open opens the store a URL is of, or a path. The error matches ErrURL if
// nothing here is for such a URL.
func (r Registry) Open(ctx context.Context, rawURL string, env Env) (Backend, error) {
	scheme, _, isURL := cutScheme(rawURL)
	if !isURL {
		// s3:bucket is far more often a slip than a file of that name.
		if name, _, ok := strings.Cut(rawURL, ":"); ok && name != "" && r[strings.ToLower(name)] != nil {
			return nil, badURL(rawURL, "write "+name+"://…")
		}
		if rawURL == "" {
			return nil, badURL(rawURL, "it is empty")
		}
	}
	open := r[scheme]
	if open == nil {
		return nil, badURL(rawURL, "known are "+r.known())
	}
	return open(ctx, rawURL, env)
}

func badURL(rawURL, reason string) error {
	return &Error{Op: "open", Kind: ErrURL, Err: fmt.Errorf("%q: %s", Redact(rawURL), reason)}
}

// known lists the schemes for people.
func (r Registry) known() string {
	var list []string
	for _, scheme := range slices.Sorted(maps.Keys(r)) {
		if scheme == "" {
			list = append(list, "a path")
		} else {
			list = append(list, scheme+"://")
		}
	}
	return strings.Join(list, ", ")
}

// cutScheme splits a URL at "://". A text without a scheme is a path.
func cutScheme(rawURL string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(rawURL, "://")
	if !ok || scheme == "" {
		return "", rawURL, false
	}
	scheme = strings.ToLower(scheme)
	for i, c := range []byte(scheme) {
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return "", rawURL, false
		}
	}
	return scheme, rest, true
}
