package dav

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

const (
	xmlType   = "application/xml; charset=utf-8"
	xmlHeader = `<?xml version="1.0" encoding="utf-8"?>`

	maxBody  = 256 << 10 // bytes of the XML of a request
	maxDepth = 32        // elements in each other
	maxParts = 2000      // elements, attributes and pieces of text
	maxProps = 200       // properties in a request
	maxNames = 16 << 10  // bytes of the names of properties, which each part of an answer repeats
)

// errXML is the answer to XML that is not valid.
var errXML = &statusError{http.StatusBadRequest, "the body is not valid XML for this method"}

// element is an XML element. It has text or elements.
type element struct {
	xml.Name
	attrs    []xml.Attr
	children []*element
	text     string
	inner    string // the content, as XML without prefixes from outside
}

// firstChild returns the first child with a name in the namespace DAV:, or nil.
func (e *element) firstChild(name string) *element {
	for _, c := range e.children {
		if c.Space == nsDAV && c.Local == name {
			return c
		}
	}
	return nil
}

// readXML returns the root of a request's body, nil if the body is empty.
func readXML(q *request) (*element, error) {
	data, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, &statusError{http.StatusRequestEntityTooLarge, "the body is too long"}
		}
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		t, err := d.Token()
		if err != nil {
			return nil, errXML
		}
		switch t := t.(type) {
		case xml.StartElement:
			root, err := (&parser{d: d, left: maxParts}).readElement(t, 0)
			if err != nil {
				return nil, errXML
			}
			if !onlyText(d) {
				return nil, errXML
			}
			return root, nil
		case xml.Directive: // a document type could define entities
			return nil, errXML
		}
	}
}

// onlyText reports whether only text and comments are left.
func onlyText(d *xml.Decoder) bool {
	for {
		t, err := d.Token()
		if err != nil {
			return err == io.EOF
		}
		switch t.(type) {
		case xml.CharData, xml.Comment, xml.ProcInst:
		default:
			return false
		}
	}
}

// parser reads elements, up to a number of parts. Small parts cost much more than their bytes.
type parser struct {
	d    *xml.Decoder
	left int
}

// readElement reads an element after its start.
func (p *parser) readElement(start xml.StartElement, depth int) (*element, error) {
	if p.left -= 1 + len(start.Attr); p.left < 0 || depth > maxDepth {
		return nil, errXML
	}
	e := &element{Name: start.Name, attrs: start.Attr}
	for _, a := range start.Attr {
		if a.Name.Space == "xmlns" && a.Value == "" { // a prefix cannot be taken back
			return nil, errXML
		}
	}
	var inner strings.Builder
	for {
		t, err := p.d.Token()
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			c, err := p.readElement(t, depth+1)
			if err != nil {
				return nil, err
			}
			e.children = append(e.children, c)
			c.writeXML(&inner)
		case xml.CharData:
			if p.left--; p.left < 0 {
				return nil, errXML
			}
			e.text += string(t)
			inner.WriteString(escape(string(t)))
		case xml.Directive:
			return nil, errXML
		case xml.EndElement:
			e.inner = inner.String()
			return e, nil
		}
	}
}

// writeXML writes the element as XML that needs no prefix from outside.
func (e *element) writeXML(b *strings.Builder) {
	fmt.Fprintf(b, `<%s xmlns="%s"`, e.Local, escape(e.Space))
	for i, a := range e.attrs {
		switch {
		case a.Name.Local == "xmlns" || a.Name.Space == "xmlns":
		case a.Name.Space == "":
			fmt.Fprintf(b, ` %s="%s"`, a.Name.Local, escape(a.Value))
		case a.Name.Space == "xml" || a.Name.Space == "http://www.w3.org/XML/1998/namespace":
			fmt.Fprintf(b, ` xml:%s="%s"`, a.Name.Local, escape(a.Value))
		default:
			fmt.Fprintf(b, ` xmlns:a%d="%s" a%d:%s="%s"`, i, escape(a.Name.Space), i, a.Name.Local, escape(a.Value))
		}
	}
	if e.inner == "" {
		b.WriteString("/>")
		return
	}
	fmt.Fprintf(b, ">%s</%s>", e.inner, e.Local)
}

// escape returns a text for XML, without control characters.
func escape(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&#34;")
		case r == '\n' || r == '\r' || r == '\t' || r >= 0x7f && unicode.IsControl(r):
			fmt.Fprintf(&b, "&#%d;", r)
		case r < ' ' || r == 0xfffe || r == 0xffff:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// propfindInfo is the body of a PROPFIND. Without names, all properties are wanted.
type propfindInfo struct {
	names     []xml.Name // the wanted properties, or further ones beside all
	all       bool
	namesOnly bool
}

// readPropfind reads the body of a PROPFIND. An empty body stands for all properties.
func readPropfind(q *request) (*propfindInfo, error) {
	root, err := readXML(q)
	if err != nil || root == nil {
		return &propfindInfo{all: true}, err
	}
	if root.Space != nsDAV || root.Local != "propfind" {
		return nil, errXML
	}
	info := &propfindInfo{}
	prop, include := root.firstChild("prop"), root.firstChild("include")
	info.all, info.namesOnly = root.firstChild("allprop") != nil, root.firstChild("propname") != nil
	kinds := 0
	for _, is := range []bool{prop != nil, info.all, info.namesOnly} {
		if is {
			kinds++
		}
	}
	if kinds != 1 || include != nil && !info.all {
		return nil, errXML
	}
	size := 0
	for _, list := range []*element{prop, include} {
		if list == nil {
			continue
		}
		for _, c := range list.children {
			if slices.Contains(info.names, c.Name) {
				continue
			}
			if size += len(c.Space) + len(c.Local); len(info.names) == maxProps || size > maxNames {
				return nil, errXML
			}
			info.names = append(info.names, c.Name)
		}
	}
	return info, nil
}

// propPatch is a part of a PROPPATCH.
type propPatch struct {
	xml.Name
	remove bool
	inner  string // the new value, as XML
	text   string
}

// readProppatch reads the body of a PROPPATCH.
func readProppatch(q *request) (list []propPatch, err error) {
	root, err := readXML(q)
	if err != nil {
		return nil, err
	}
	if root == nil || root.Space != nsDAV || root.Local != "propertyupdate" {
		return nil, errXML
	}
	for _, c := range root.children {
		if c.Space != nsDAV || c.Local != "set" && c.Local != "remove" {
			continue
		}
		prop := c.firstChild("prop")
		if prop == nil {
			return nil, errXML
		}
		for _, p := range prop.children {
			list = append(list, propPatch{Name: p.Name, remove: c.Local == "remove", inner: p.inner, text: strings.TrimSpace(p.text)})
		}
	}
	if len(list) == 0 || len(list) > maxProps {
		return nil, errXML
	}
	return list, nil
}

// lockInfo is the body of a LOCK.
type lockInfo struct {
	shared bool
	owner  string // as XML
}

// readLockInfo reads the body of a LOCK, nil if it is empty.
func readLockInfo(q *request) (*lockInfo, error) {
	root, err := readXML(q)
	if err != nil || root == nil {
		return nil, err
	}
	scope, kind := root.firstChild("lockscope"), root.firstChild("locktype")
	if root.Space != nsDAV || root.Local != "lockinfo" || scope == nil || kind == nil || kind.firstChild("write") == nil {
		return nil, errXML
	}
	info := &lockInfo{shared: scope.firstChild("shared") != nil}
	if !info.shared && scope.firstChild("exclusive") == nil {
		return nil, errXML
	}
	if owner := root.firstChild("owner"); owner != nil && len(owner.inner) <= maxOwner {
		info.owner = owner.inner
	}
	return info, nil
}
