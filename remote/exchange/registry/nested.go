package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// maxNested is the most names of a store that CheckNested reads.
const maxNested = 10_000

// nested reports whether the store at one URL lies inside that at another.
func nested(r *kist.Repository, inner, outer string) bool {
	in, inFolder := folderOf(r, inner)
	out, outFolder := folderOf(r, outer)
	if inFolder && outFolder {
		return isInside(in, out) && !isInside(out, in)
	}
	for _, around := range aroundURL(inner) {
		if around == s3URL(outer) {
			return true
		}
	}
	return false
}

// s3URL returns the canonical URL of a store in S3, or "" for another URL.
func s3URL(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || !strings.EqualFold(u.Scheme, "s3") {
		return ""
	}
	query := url.Values{}
	if endpoint := u.Query().Get("endpoint"); endpoint != "" {
		query.Set("endpoint", strings.TrimRight(endpoint, "/"))
	}
	out := url.URL{Scheme: "s3", Host: u.Host, Path: "/" + strings.Trim(u.Path, "/"), RawQuery: query.Encode()}
	return out.String()
}

// aroundURL returns the canonical URLs of all prefixes around a store in S3.
func aroundURL(rawURL string) (list []string) {
	u, err := url.Parse(s3URL(rawURL))
	if err != nil || u.Host == "" {
		return nil
	}
	for path := strings.Trim(u.Path, "/"); path != ""; {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		u.Path = "/" + path
		list = append(list, u.String())
	}
	return list
}

// CheckNested returns an error that matches ErrNested if a store has another remote around
// the place of m. If m is new, it also looks inside that place. It finds only remotes that
// it may read.
func CheckNested(ctx context.Context, r *kist.Repository, m Remote) error {
	around := aroundURL(m.URL)
	if path, ok := folderOf(r, m.URL); ok {
		for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			around = append(around, dir)
		}
	}
	for _, outer := range around {
		there, err := holdsRemote(ctx, r, outer)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%q: %w: there is one at %q", remote.Redact(m.URL), ErrNested, remote.Redact(outer))
		}
	}

	b, err := openBackend(ctx, r.Options(), m)
	if err != nil {
		return ctx.Err()
	}
	defer b.Close()
	if _, err := rootlog.ReadIdentity(ctx, b); !errors.Is(err, rootlog.ErrEmpty) {
		return ctx.Err() // the creation of an existing remote checked this
	}
	n := 0
	for info, err := range b.List(ctx, "") {
		if err != nil {
			return ctx.Err()
		}
		if inner, ok := strings.CutSuffix(info.Name, "/kist.json"); ok && !strings.HasPrefix(inner, "probe/") {
			return fmt.Errorf("%q: %w: there is one at %q in it", remote.Redact(m.URL), ErrNested, inner)
		}
		if n++; n == maxNested {
			break
		}
	}
	return nil
}

// holdsRemote reports whether there is a readable remote at a URL.
func holdsRemote(ctx context.Context, r *kist.Repository, rawURL string) (bool, error) {
	b, err := openBackend(ctx, r.Options(), Remote{URL: rawURL})
	if err != nil {
		return false, ctx.Err()
	}
	defer b.Close()
	_, err = rootlog.ReadIdentity(ctx, b)
	return err == nil, ctx.Err()
}
