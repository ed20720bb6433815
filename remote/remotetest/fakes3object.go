package remotetest

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// take applies a PUT or DELETE without answering, and reports whether it had an
// effect.
func (f *FakeS3) take(req S3Request, body []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	conditional := req.Header.Get("If-None-Match") == "*" && f.condition != S3Ignores && f.condition != S3Races
	switch {
	case req.Kind == "delete":
		delete(f.objects, req.Key)
		f.effects = append(f.effects, fakeEffect{key: req.Key})
		return true
	case req.Kind == "put":
		if _, taken := f.objects[req.Key]; taken && conditional {
			return false
		}
		class := req.Header.Get("X-Amz-Storage-Class")
		f.store(req.Key, class, body)
		f.effects = append(f.effects, fakeEffect{key: req.Key, class: class, data: body, conditional: conditional})
		return true
	}
	return false
}

// replayOne applies an old PUT or DELETE once more, at the set rate. The caller
// holds f.mu.
func (f *FakeS3) replayOne() {
	if len(f.effects) == 0 || f.replay == 0 || f.rand.Float64() >= f.replay {
		return
	}
	e := f.effects[f.rand.IntN(len(f.effects))]
	_, taken := f.objects[e.key]
	switch {
	case e.data == nil:
		delete(f.objects, e.key)
	case !taken || !e.conditional:
		f.store(e.key, e.class, e.data)
	}
}

func (f *FakeS3) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	sum := md5.Sum(body)
	if want := r.Header.Get("Content-Md5"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
		writeS3Error(w, 400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
		return
	}
	sha := sha256.Sum256(body)
	if want := r.Header.Get("X-Amz-Content-Sha256"); len(want) == 2*len(sha) && want != hex.EncodeToString(sha[:]) {
		writeS3Error(w, 400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
		return
	}
	if class := r.Header.Get("X-Amz-Storage-Class"); class != "" && !slices.Contains(fakeClasses, class) {
		writeS3Error(w, 400, "InvalidStorageClass", "The storage class you specified is not valid")
		return
	}
	conditional := r.Header.Get("If-None-Match") == "*"
	f.mu.Lock()
	condition := f.condition
	_, taken := f.objects[key]
	busy := f.under[key] > 0
	f.under[key]++
	f.looks[key]++
	look := f.looks[key]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.under[key]--
	}()

	switch {
	case conditional && condition == S3Refuses:
		writeS3Error(w, 501, "NotImplemented", "A header you provided implies functionality that is not implemented")
		return
	case conditional && condition == S3Conflicts && busy:
		writeS3Error(w, 409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation against this resource.")
		return
	case conditional && condition == S3Races && taken:
		writeS3Error(w, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
		return
	case conditional && condition == S3Races:
		f.awaitLook(key, look)
	case conditional && condition == S3Conflicts:
		for range 5 { // others come while this one is under way
			runtime.Gosched()
			time.Sleep(20 * time.Microsecond)
		}
	}
	if !f.take(S3Request{Kind: "put", Key: key, Header: r.Header}, body) {
		writeS3Error(w, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
		return
	}
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
}

// awaitLook waits a short time until later PUTs than the look-th have looked at
// key. There may be none.
func (f *FakeS3) awaitLook(key string, look int) {
	for range 50 {
		f.mu.Lock()
		others := f.looks[key] > look
		f.mu.Unlock()
		if others {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (f *FakeS3) get(w http.ResponseWriter, r *http.Request, key string, answer *S3Answer) {
	f.mu.Lock()
	o, ok := f.objects[key]
	f.mu.Unlock()
	if !ok {
		writeS3Error(w, 404, "NoSuchKey", "The specified key does not exist.")
		return
	}
	if !f.showArchived(w, r, key, o.class) {
		return
	}
	data := o.data
	if answer.Body != nil {
		data = answer.Body(data)
	}
	sum := md5.Sum(o.data)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	w.Header().Set("Last-Modified", o.modified.Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Accept-Ranges", "bytes")
	status, from, to := http.StatusOK, int64(0), int64(len(data))
	if spec := r.Header.Get("Range"); spec != "" {
		var last int64
		if _, err := fmt.Sscanf(spec, "bytes=%d-%d", &from, &last); err != nil || last < from {
			writeS3Error(w, 400, "InvalidArgument", "a range this server does not know")
			return
		}
		if from >= to {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", to))
			writeS3Error(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable")
			return
		}
		status, to = http.StatusPartialContent, min(to, last+1)
	}
	body := data[from:to]
	half := body[:len(body)/2]
	if answer.Short {
		body, to = half, from+int64(len(half))
	}
	if status == http.StatusPartialContent {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if answer.Cut {
		body = half
	}
	if answer.Slow > 0 {
		http.NewResponseController(w).Flush() // the headers do not wait
	}
	for part := range slices.Chunk(body, 4096) {
		if answer.Slow > 0 {
			select {
			case <-time.After(answer.Slow):
			case <-f.stop:
				return
			}
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		if answer.Slow > 0 {
			http.NewResponseController(w).Flush()
		}
	}
	if answer.Cut {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // ends the connection
	}
}
