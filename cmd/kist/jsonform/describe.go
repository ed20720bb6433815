package jsonform

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
)

// Field describes a field of an object in JSON.
type Field struct {
	Name     string
	Doc      string       // the meaning, in a few words
	Values   []string     // the values that it can have; nil: any of the type
	Type     reflect.Type // without pointers
	Optional bool         // it can be absent
	Nullable bool

	depth int // of the embedded struct that has it
}

// Text returns the meaning of a field, with its values.
func (f *Field) Text() string {
	switch n := len(f.Values); n {
	case 0:
		return f.Doc
	case 1:
		return f.Doc + ": " + f.Values[0]
	default:
		return f.Doc + ": " + strings.Join(f.Values[:n-1], ", ") + " or " + f.Values[n-1]
	}
}

// Fields describes the objects that encoding/json writes for a struct, from the tags of its fields:
// json, doc, and values (separated by |). A field named X_raw has the bytes of X, and needs no doc.
// The doc of an embedded struct replaces the one of its first field.
func Fields(t reflect.Type) []Field {
	var list []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		var found []Field
		switch {
		case name == "" && f.Anonymous:
			found = embeddedFields(f)
		case name == "" || name == "-":
		default:
			found = []Field{newField(f, name, strings.Contains(options, "omit"))}
		}

		for _, field := range found {
			at := slices.IndexFunc(list, func(old Field) bool { return old.Name == field.Name })
			if at < 0 {
				list = append(list, field)
			} else if field.depth < list[at].depth {
				list[at] = field
			}
		}
	}
	return list
}

func newField(f reflect.StructField, name string, optional bool) Field {
	field := Field{Name: name, Doc: f.Tag.Get("doc"), Type: base(f.Type), Optional: optional}
	field.Nullable = f.Type.Kind() == reflect.Pointer && !optional
	if values := f.Tag.Get("values"); values != "" {
		field.Values = strings.Split(values, "|")
	}
	if of, ok := strings.CutSuffix(name, "_raw"); ok && field.Doc == "" {
		field.Doc = "the bytes of " + of + ", only if they are not UTF-8"
	}
	return field
}

// embeddedFields describes the fields that an embedded struct adds. They can be absent if a pointer
// embeds it.
func embeddedFields(f reflect.StructField) []Field {
	list := Fields(base(f.Type))
	for i := range list {
		list[i].depth++
		list[i].Optional = list[i].Optional || f.Type.Kind() == reflect.Pointer
	}
	if doc := f.Tag.Get("doc"); doc != "" {
		list[0].Doc = doc
	}
	return list
}

// base returns a type without pointers to it.
func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// Kind is the sort of a value in JSON.
type Kind string

// The kinds. Values of the first three are strings.
const (
	KindID     Kind = "ID"     // 64 hexadecimal digits
	KindTime   Kind = "time"   // RFC 3339
	KindBytes  Kind = "base64" // bytes
	KindString Kind = "string"
	KindInt    Kind = "integer"
	KindFloat  Kind = "number"
	KindBool   Kind = "boolean"
	KindList   Kind = "list"
	KindMap    Kind = "map" // an object with any names
	KindObject Kind = "object"
)

// KindOf returns the kind of the values of a type.
func KindOf(t reflect.Type) Kind {
	switch {
	case t == reflect.TypeFor[object.ID]():
		return KindID
	case t == reflect.TypeFor[time.Time]():
		return KindTime
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return KindString
	}
	switch t.Kind() {
	case reflect.Bool:
		return KindBool
	case reflect.String:
		return KindString
	case reflect.Float32, reflect.Float64:
		return KindFloat
	case reflect.Struct:
		return KindObject
	case reflect.Map:
		return KindMap
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return KindBytes
		}
		return KindList
	}
	return KindInt
}

// Inner returns the struct of the objects in values of a type: the type itself, or that of the items
// of lists. It returns nil if there are none.
func Inner(t reflect.Type) reflect.Type {
	switch KindOf(t) {
	case KindObject:
		return t
	case KindList, KindMap:
		return Inner(base(t.Elem()))
	}
	return nil
}

// DocumentName returns the name of a struct in documents: "Move" for moveJSON.
func DocumentName(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "JSON")
	return strings.ToUpper(name[:1]) + name[1:]
}

// Nested returns the structs of the objects in the fields of objects, directly or not, each once.
func Nested(objects ...reflect.Type) []reflect.Type {
	var list []reflect.Type
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for _, f := range Fields(t) {
			if inner := Inner(f.Type); inner != nil && !slices.Contains(list, inner) {
				list = append(list, inner)
				visit(inner)
			}
		}
	}
	for _, t := range objects {
		visit(t)
	}
	return list
}
