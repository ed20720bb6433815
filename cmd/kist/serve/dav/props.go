package dav

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// maxInfinite is the number of resources in the answer to a PROPFIND of infinite depth. With
// more, the client has to ask for each folder.
const maxInfinite = 10_000

// deadKey begins the keys of attributes that are properties of clients (dead properties).
const deadKey = "dav:"

// live has the properties that the server computes, and whether a PROPFIND of all properties
// has them.
var live = map[string]bool{
	"resourcetype": true, "displayname": true, "getcontentlength": true, "getcontenttype": true, "getetag": true,
	"getlastmodified": true, "supportedlock": true, "lockdiscovery": true,
	"quota-available-bytes": false, "quota-used-bytes": false,
}

// protected has further names that clients cannot set.
var protected = []string{"creationdate", "getcontentlanguage"}

// answerPropfind answers PROPFIND.
func (q *request) answerPropfind(p *place) error {
	e, err := p.readEntry(q.r.Context())
	if err != nil {
		return err
	}
	info, err := readPropfind(q)
	if err != nil {
		return err
	}
	var list []found
	switch strings.ToLower(q.r.Header.Get("Depth")) {
	case "0":
		list = []found{{p, e}}
	case "1":
	case "", "infinity":
		if list, err = q.findBelow(p, e); err != nil {
			return err
		}
	default:
		return &statusError{http.StatusBadRequest, "this depth is not possible"}
	}

	q.w.Header().Set("Content-Type", xmlType)
	q.w.WriteHeader(http.StatusMultiStatus)
	out := bufio.NewWriter(q.w)
	io.WriteString(out, xmlHeader+`<D:multistatus xmlns:D="DAV:">`)
	if list != nil {
		for _, f := range list {
			q.writeProps(out, f, info)
		}
	} else {
		q.writeFolder(out, p, e, info)
	}
	io.WriteString(out, `</D:multistatus>`)
	return orAbort(out.Flush())
}

// orAbort ends the connection after an error: a part of the answer was sent.
func orAbort(err error) error {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// found is an existing resource.
type found struct {
	*place
	e object.Entry
}

// writeFolder writes the properties of a folder and of its content.
func (q *request) writeFolder(out *bufio.Writer, p *place, e object.Entry, info *propfindInfo) {
	q.writeProps(out, found{p, e}, info)
	if e.Type != object.TypeDir {
		return
	}
	for e, err := range p.readableEntries(q.r.Context()) {
		orAbort(err)
		c := found{place: p, e: e}
		if p.folder == nil {
			at := *p
			at.path, at.slash = tree.Join(p.path, e.Name), false
			c.place = &at
		} else {
			at := *p
			at.root = strings.TrimPrefix(p.root+"/"+e.Name, "/")
			c.place = &at
		}
		q.writeProps(out, c, info)
	}
}

// findBelow returns a resource and everything below it.
func (q *request) findBelow(p *place, e object.Entry) ([]found, error) {
	list := []found{{p, e}}
	if p.folder != nil && e.Type == object.TypeDir { // there may be any number of commits below
		return nil, &condError{http.StatusForbidden, "propfind-finite-depth", ""}
	}
	for i := 0; i < len(list); i++ {
		at := list[i]
		if at.e.Type != object.TypeDir {
			continue
		}
		for e, err := range at.place.readableEntries(q.r.Context()) {
			if err != nil {
				return nil, err
			}
			if len(list) >= maxInfinite {
				return nil, &condError{http.StatusForbidden, "propfind-finite-depth", ""}
			}
			c := *at.place
			c.path, c.slash = tree.Join(at.path, e.Name), false
			list = append(list, found{&c, e})
		}
	}
	return list, nil
}

// writeProps writes the properties of a resource.
func (q *request) writeProps(out *bufio.Writer, f found, info *propfindInfo) {
	dir := f.e.Type == object.TypeDir
	fmt.Fprintf(out, `<D:response><D:href>%s</D:href>`, escape(href(f.fullPath(), dir)))
	names := info.names
	if info.all || info.namesOnly {
		names = nil
		for _, local := range slices.Sorted(maps.Keys(live)) {
			name := xml.Name{Space: nsDAV, Local: local}
			if _, ok := q.liveProp(f, local); ok && (live[local] || slices.Contains(info.names, name)) {
				names = append(names, name)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(f.e.Attrs)) {
			if name, ok := propOfKey(key); ok {
				names = append(names, name)
			}
		}
		for _, name := range info.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}

	var missing strings.Builder
	io.WriteString(out, `<D:propstat><D:prop>`)
	for _, name := range names {
		value, ok := q.propXML(f, name)
		switch {
		case !ok:
			writeProp(&missing, name, "")
		case info.namesOnly:
			writeProp(out, name, "")
		default:
			writeProp(out, name, value)
		}
	}
	io.WriteString(out, `</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>`)
	if missing.Len() > 0 {
		fmt.Fprintf(out, `<D:propstat><D:prop>%s</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>`, missing.String())
	}
	io.WriteString(out, `</D:response>`)
}

// writeProp writes a property with a value that is XML.
func writeProp(w io.Writer, name xml.Name, value string) {
	tag, ns := name.Local, fmt.Sprintf(` xmlns="%s"`, escape(name.Space))
	if name.Space == nsDAV {
		tag, ns = "D:"+name.Local, ""
	}
	if value == "" {
		fmt.Fprintf(w, `<%s%s/>`, tag, ns)
		return
	}
	if ns != "" { // the value has namespaces of its own; text has none
		fmt.Fprintf(w, `<%s%s>%s</%s>`, tag, ns, value, tag)
		return
	}
	fmt.Fprintf(w, `<%s>%s</%s>`, tag, value, tag)
}

// propXML returns a property as XML.
func (q *request) propXML(f found, name xml.Name) (string, bool) {
	if _, is := live[name.Local]; is && name.Space == nsDAV {
		return q.liveProp(f, name.Local)
	}
	value, ok := f.e.Attrs[keyOfProp(name)]
	if !ok || !wellFormed(value) {
		return "", false
	}
	return value, true
}

// liveProp returns a property that the server computes.
func (q *request) liveProp(f found, local string) (string, bool) {
	dir := f.e.Type == object.TypeDir
	switch local {
	case "resourcetype":
		if dir {
			return `<D:collection/>`, true
		}
		return "", true
	case "displayname":
		return escape(path.Base("/" + f.fullPath())), true
	case "getcontentlength":
		return strconv.FormatUint(f.e.Size, 10), !dir
	case "getcontenttype":
		return escape(mediaType(&f.e, f.e.Name)), !dir
	case "getetag":
		if dir {
			return "", false
		}
		return escape(etag(&f.e)), true
	case "getlastmodified":
		at, ok := f.e.Modified()
		if !ok {
			at = q.started
		}
		return at.UTC().Format(http.TimeFormat), true
	case "supportedlock":
		return `<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>` +
			`<D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>`, f.branch != nil
	case "lockdiscovery":
		var b strings.Builder
		for _, l := range q.locks.locksCovering(f.fullPath()) {
			b.WriteString(q.activeLock(l, l.root == f.fullPath()))
		}
		return b.String(), f.branch != nil
	case "quota-used-bytes":
		if !dir || f.folder != nil {
			return "", false
		}
		all, err := f.rules.ReadsAll(q.r.Context(), f.path)
		return strconv.FormatUint(f.e.Size, 10), all && err == nil
	case "quota-available-bytes":
		free, ok := q.freeSpace()
		return strconv.FormatUint(free, 10), ok && dir && f.branch != nil
	}
	return "", false
}

// inKey and outOfKey replace the bytes that the key of an attribute, or its end, must not have.
var (
	inKey    = strings.NewReplacer("%", "%25", "=", "%3D", "}", "%7D")
	outOfKey = strings.NewReplacer("%25", "%", "%3D", "=", "%7D", "}")
)

// keyOfProp returns the key of the attribute with a property of a client.
func keyOfProp(name xml.Name) string {
	return deadKey + "{" + inKey.Replace(name.Space) + "}" + inKey.Replace(name.Local)
}

// propOfKey is the inverse of keyOfProp. Ok is false for the keys of other attributes, and for
// names that XML does not allow.
func propOfKey(key string) (name xml.Name, ok bool) {
	rest, ok := strings.CutPrefix(key, deadKey+"{")
	if !ok {
		return name, false
	}
	space, local, ok := strings.Cut(rest, "}")
	name = xml.Name{Space: outOfKey.Replace(space), Local: outOfKey.Replace(local)}
	return name, ok && keyOfProp(name) == key && wellFormed("<"+name.Local+"/>") && !strings.ContainsAny(name.Local, " \t\r\n/<>=\"'&:")
}

// wellFormed reports whether a value is XML that can stand in an answer. An attribute may have
// come from anywhere.
func wellFormed(value string) bool {
	if !strings.ContainsAny(value, "<&") {
		return true
	}
	d := xml.NewDecoder(strings.NewReader("<v>" + value + "</v>"))
	depth := 0
	for {
		t, err := d.Token()
		if err == io.EOF {
			return depth == 0
		}
		if err != nil {
			return false
		}
		switch t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 && d.InputOffset() != int64(len(value)+len("<v></v>")) {
				return false
			}
		case xml.Directive, xml.ProcInst, xml.Comment:
			return false
		}
	}
}

// answerProppatch answers PROPPATCH: it changes properties of a client, all of them or none.
func (q *request) answerProppatch(p *place) error {
	if p.branch == nil || p.path == "" {
		return p.checkWritable()
	}
	patches, err := readProppatch(q)
	if err != nil {
		return err
	}
	result := map[xml.Name]int{}
	var dir bool
	err = p.branch.Change(q.r.Context(), q.authorOfChanges(), nil, func(e *pending.Edit) error {
		now, err := q.placeAt(p, e.Before, p.path)
		if err != nil {
			return err
		}
		old, err := now.readEntry(q.r.Context())
		if err == nil {
			err = now.rules.MayWrite(q.r.Context(), p.path)
		}
		if err == nil {
			err = checkPrecondition(q.r, &old)
		}
		if err == nil {
			err = q.checkLocks(now, false)
		}
		if err != nil {
			return err
		}
		entry, changed := patched(old, patches, result)
		dir = entry.Type == object.TypeDir
		switch {
		case !changed:
		case dir:
			e.SetDir(p.path, entry)
		default:
			e.Set(p.path, entry)
		}
		return nil
	})
	if err != nil {
		return err
	}

	q.w.Header().Set("Content-Type", xmlType)
	q.w.WriteHeader(http.StatusMultiStatus)
	fmt.Fprintf(q.w, `%s<D:multistatus xmlns:D="DAV:"><D:response><D:href>%s</D:href>`, xmlHeader, escape(href(p.fullPath(), dir)))
	for _, patch := range patches {
		code, ok := result[patch.Name]
		if !ok {
			continue
		}
		delete(result, patch.Name)
		io.WriteString(q.w, `<D:propstat><D:prop>`)
		writeProp(q.w, patch.Name, "")
		text := http.StatusText(code)
		fmt.Fprintf(q.w, `</D:prop><D:status>HTTP/1.1 %d %s</D:status>`, code, text)
		if code == http.StatusForbidden {
			io.WriteString(q.w, `<D:error><D:cannot-modify-protected-property/></D:error>`)
		}
		io.WriteString(q.w, `</D:propstat>`)
	}
	io.WriteString(q.w, `</D:response></D:multistatus>`)
	return nil
}

// patched returns an entry with patched properties, and sets the status code of each property.
// If one patch is impossible, the entry stays.
func patched(old object.Entry, patches []propPatch, result map[xml.Name]int) (e object.Entry, changed bool) {
	clear(result)
	e = old
	attrs := maps.Clone(old.Attrs)
	if attrs == nil {
		attrs = map[string]string{}
	}
	failed := false
	for _, p := range patches {
		code := http.StatusOK
		at, isTime, err := timeOfProp(p.Name, p.text)
		_, isLive := live[p.Local]
		switch {
		case isTime && !p.remove && err != nil:
			code = http.StatusConflict
		case isTime && !p.remove:
			e.MTime, changed = at, true
		case isTime, slices.Contains(droppedProps, p.Name):
		case p.Space == nsDAV && (isLive || slices.Contains(protected, p.Local)):
			code = http.StatusForbidden
		case p.remove:
			delete(attrs, keyOfProp(p.Name))
			changed = true
		default:
			key := keyOfProp(p.Name)
			attrs[key] = p.inner
			changed = true
			if tree.CheckAttr(key, p.inner) != nil || tree.CheckAttrs(attrs) != nil {
				code = http.StatusInsufficientStorage
			}
		}
		result[p.Name] = code
		failed = failed || code != http.StatusOK
	}
	if !failed {
		e.SetAttrs(attrs)
		return e, changed
	}
	for name, code := range result {
		if code == http.StatusOK {
			result[name] = http.StatusFailedDependency
		}
	}
	return old, false
}
