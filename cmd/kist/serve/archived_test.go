package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
)

// A server says that content lies in an archive, instead of "internal error".
func TestArchivedStatus(t *testing.T) {
	err := object.NewAwayError(object.Key{}, fmt.Errorf("read: %w", &remote.Error{Op: "get", Err: remote.ErrArchived}))
	if code, text := StatusOf(err); code != http.StatusServiceUnavailable || !strings.Contains(text, "archive") {
		t.Errorf("status %d, %q", code, text)
	}
	if again := RetryAfter(err); again != "3600" {
		t.Errorf("a client may ask again after %s seconds, want an hour", again)
	}
}
