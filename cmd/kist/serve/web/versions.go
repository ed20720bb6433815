package web

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// indexed returns the index of history, which the server keeps. The first use may take long,
// so that it goes on in the background when its page waits no longer.
type indexed struct {
	site  *serve.Site
	start background
	turn  chan struct{} // has one element while the index is in use or being made
}

// background starts work that a page does not wait for. Its context ends with the server.
type background func(work func(ctx context.Context))

// errIndexing means that the index of history is not ready yet.
var errIndexing = &shownError{"Reading the history", "The index of the history is being made. This page asks again by itself.", http.StatusServiceUnavailable}

// indexing is the answer of a page that needs the index of history before it is ready.
var indexing = page{name: "failure", Title: errIndexing.title, status: errIndexing.status, Refresh: 2, Data: failure{Title: errIndexing.title, Text: errIndexing.text}}

// The longest that a page waits for the index of history: one that needs it, and one that is
// only nicer with it.
var (
	maxIndexing  = 3 * time.Second
	niceIndexing = 200 * time.Millisecond
)

// useIndex calls fn with the index of the present history. If the index is not ready within a
// time, it does not call fn, and the error is errIndexing.
func (i *indexed) useIndex(ctx context.Context, wait time.Duration, fn func(x *versions.Index) error) error {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case i.turn <- struct{}{}:
	case <-late.C:
		return errIndexing
	case <-ctx.Done():
		return ctx.Err()
	}

	var decided atomic.Bool // whether fn is called, or the page gave up
	done := make(chan error, 1)
	i.start(func(ctx context.Context) {
		defer func() { <-i.turn }()
		done <- i.site.History(ctx, func(x *versions.Index) error {
			if !decided.CompareAndSwap(false, true) {
				return nil
			}
			return fn(x)
		})
	})
	select {
	case err := <-done:
		return err
	case <-late.C:
	case <-ctx.Done():
	}
	if decided.CompareAndSwap(false, true) {
		return errIndexing
	}
	return <-done // fn began in time
}

// refsState returns a hash of HEAD and all refs.
func refsState(r *kist.Repository) (object.ID, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return object.ID{}, err
	}
	list, err := r.Refs().List("")
	if err != nil && len(list) == 0 {
		return object.ID{}, err
	}
	data := []byte(head.Branch + "\x00" + head.ID.String())
	for _, ref := range list {
		data = append(data, "\x00"+ref.Name+"\x00"+ref.ID.String()...)
	}
	return object.Sum(data), nil
}
