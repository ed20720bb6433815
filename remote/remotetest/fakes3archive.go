package remotetest

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

// fakeClasses are the classes of storage that a [FakeS3] has, as Amazon does.
var fakeClasses = []string{"STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"}

// fakeThaws has the time of a thaw of each archive.
var fakeThaws = map[string]time.Duration{"GLACIER": 4 * time.Hour, "DEEP_ARCHIVE": 11 * time.Hour}

// fakeArchive has the copies that clients have asked for, by key, and the clock that they depend on.
type fakeArchive struct {
	now    time.Duration // since the start of the server
	copies map[string]fakeCopy
}

// fakeCopy is a copy of an archived object: it can be read from ready to end.
type fakeCopy struct{ ready, end time.Duration }

// PassTime moves the clock of the archives: copies that clients have asked for become ready, and end. Nothing else moves it.
func (f *FakeS3) PassTime(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.archive.now += d
}

// Class returns the class of storage of an object; "" is the usual one.
func (f *FakeS3) Class(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[key].class
}

// copyOf returns the copy of an archived object, if somebody has asked for one that has not ended. The caller holds f.mu.
func (f *FakeS3) copyOf(key string) (fakeCopy, bool) {
	c, asked := f.archive.copies[key]
	return c, asked && f.archive.now < c.end
}

// showArchived adds the headers of the class of an object to an answer. If a GET cannot read the object, it answers with the error and
// returns false.
func (f *FakeS3) showArchived(w http.ResponseWriter, r *http.Request, key, class string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if class == "" || class == "STANDARD" {
		return true
	}
	c, asked := f.copyOf(key)
	ready := asked && f.archive.now >= c.ready
	if fakeThaws[class] > 0 && !ready && r.Method == http.MethodGet {
		writeS3Error(w, 403, "InvalidObjectState", "The operation is not valid for the object's storage class")
		return false
	}
	w.Header().Set("X-Amz-Storage-Class", class)
	switch {
	case ready:
		w.Header().Set("X-Amz-Restore", fmt.Sprintf(`ongoing-request="false", expiry-date="%s"`, f.clock.Add(c.end-f.archive.now).UTC().Format(http.TimeFormat)))
	case asked:
		w.Header().Set("X-Amz-Restore", `ongoing-request="true"`)
	}
	return true
}

// restore answers a request for a copy of an archived object.
func (f *FakeS3) restore(w http.ResponseWriter, key string, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.objects[key]
	var request struct {
		Days                 int
		GlacierJobParameters struct{ Tier string }
	}
	err := xml.Unmarshal(body, &request)
	takes := fakeThaws[o.class]
	c, asked := f.copyOf(key)
	switch {
	case !ok:
		writeS3Error(w, 404, "NoSuchKey", "The specified key does not exist.")
	case err != nil || request.Days < 1 || request.GlacierJobParameters.Tier != "Standard":
		writeS3Error(w, 400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
	case takes == 0:
		writeS3Error(w, 403, "InvalidObjectState", "Restore is not allowed for the object's current storage class")
	case asked && f.archive.now < c.ready:
		writeS3Error(w, 409, "RestoreAlreadyInProgress", "Object restore is already in progress")
	default:
		status := http.StatusOK // the copy is there: only its end moves
		if !asked {
			c.ready, status = f.archive.now+takes, http.StatusAccepted
		}
		c.end = max(c.ready, f.archive.now) + time.Duration(request.Days)*24*time.Hour
		if f.archive.copies == nil {
			f.archive.copies = map[string]fakeCopy{}
		}
		f.archive.copies[key] = c
		w.WriteHeader(status)
	}
}
