package index

// Pack appends an encoding of e without its name, of about 70 bytes. It appends nothing and
// reports false if an index cannot hold e, see [Index.Set].
func Pack(dst []byte, e *Entry) ([]byte, bool) {
	if checkEntry(e) != nil {
		return dst, false
	}
	nameless := *e
	nameless.Name = ""
	return appendEntry(dst, &nameless), true
}

// Unpacker decodes entries that [Pack] encoded. The zero Unpacker is ready. It is not safe for
// concurrent use.
type Unpacker struct{ strings arena }

// Unpack sets e to the entry that [Pack] encoded as data, under a name.
func (u *Unpacker) Unpack(e *Entry, name string, data []byte) {
	*e = Entry{}
	f := fieldReader{in: data}
	f.decodeEntry(e, &u.strings)
	e.Name = name
}
