package dav

import (
	"encoding/xml"
	"errors"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
)

// expectedSize returns the size of the body that the client announces, and -1 if it does not. The
// client of macOS sends chunks without a length, and this header.
func expectedSize(r *http.Request) int64 {
	if r.ContentLength >= 0 {
		return r.ContentLength
	}
	n, err := strconv.ParseInt(r.Header.Get("X-Expected-Entity-Length"), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// modifiedTime returns the time of the file that a client sends with its content, as those of
// ownCloud do. It reports whether there is one.
func modifiedTime(r *http.Request) (object.Time, bool) {
	sec, err := strconv.ParseFloat(r.Header.Get("X-OC-Mtime"), 64)
	if err != nil || !(sec >= -1<<40 && sec <= 1<<40) { // not a number is neither
		return object.Time{}, false
	}
	whole := math.Floor(sec)
	return object.TimeOf(time.Unix(int64(whole), int64((sec-whole)*1e9))), true
}

// finderFiles are names of files in which macOS keeps the look of a folder. Nobody wants them
// in history.
var finderFiles = []string{".DS_Store", "._.DS_Store", ".Spotlight-V100", ".Trashes", ".fseventsd", ".TemporaryItems", "._.", ".metadata_never_index"}

// isFinderFile reports whether the client of macOS sends a file that only it needs. Finder
// copes with the refusal. Other files with names such as "._x" have parts of the file x.
func isFinderFile(r *http.Request, p *place) bool {
	return strings.HasPrefix(r.UserAgent(), "WebDAVFS/") && slices.Contains(finderFiles, path.Base(p.path))
}

// The namespaces of properties with a meaning.
const (
	nsDAV       = "DAV:"
	nsMicrosoft = "urn:schemas-microsoft-com:"
)

// droppedProps are properties that Windows sets after each upload. Its client takes a refusal
// for a failed upload. kist records none of them.
var droppedProps = []xml.Name{
	{Space: nsMicrosoft, Local: "Win32CreationTime"},
	{Space: nsMicrosoft, Local: "Win32LastAccessTime"},
	{Space: nsMicrosoft, Local: "Win32FileAttributes"},
}

// timeOfProp returns the time of modification that a property sets: that of Windows, or that of
// ownCloud's clients.
func timeOfProp(name xml.Name, value string) (t object.Time, is bool, err error) {
	switch name {
	case xml.Name{Space: nsMicrosoft, Local: "Win32LastModifiedTime"}:
		at, err := http.ParseTime(value)
		return object.TimeOf(at), true, err
	case xml.Name{Space: nsDAV, Local: "lastmodified"}:
		sec, err := strconv.ParseInt(value, 10, 64)
		return object.Time{Sec: sec}, true, err
	}
	return object.Time{}, false, nil
}

// isNoSpace reports whether the disk, or the user's share of it, is full.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// freeSpace returns the number of bytes that the disk has left for the repository.
func (h *Handler) freeSpace() (uint64, bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(h.repo.Dir(), &st) != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true
}
