package keyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/kist-vcs/kist/remote"
)

// File is a keyset in its stored form, which nobody can read without an identity. Its remote and serial are not
// authentic before [Identities.Open] has compared them with the content.
type File struct {
	Remote [16]byte // ID of the remote
	Serial uint64

	data      []byte
	envelopes []envelope // the hybrid one comes first
	locked    [][]byte   // locked identities, as armored age files
}

// envelope is an age file that holds the content of the keyset.
type envelope struct {
	kind    Kind
	armored []byte
	data    []byte        // without armor
	stanzas []*age.Stanza // one or more for each recipient
}

// Kind says against whom the public key of a recipient is safe. The kinds do not mix in one age file.
type Kind string

// The kinds. Their values are part of the format.
const (
	Hybrid  Kind = "hybrid"  // safe against quantum computers, too
	Classic Kind = "classic" // and everything that a plugin encrypts to
)

const (
	firstLine    = "kist keyset "
	formatNumber = "1"
	lockedLine   = "locked identity"
	sumLine      = "sha256 "
)

// Bytes returns the stored form. The caller must not change it.
func (f *File) Bytes() []byte { return f.data }

// Sum returns the SHA-256 of the stored form.
func (f *File) Sum() [32]byte { return sha256.Sum256(f.data) }

// build assembles the stored form, and parses it.
func build(remoteID [16]byte, serial uint64, envelopes []envelope, locked [][]byte) (*File, error) {
	data := remote.AppendHeader(nil, remote.TypeKeyset, remote.Version1)
	data = fmt.Appendf(data, "%s%s\nremote %x\nserial %d\n", firstLine, formatNumber, remoteID, serial)
	for _, e := range envelopes {
		data = fmt.Appendf(data, "envelope %s\n%s", e.kind, e.armored)
	}
	for _, l := range locked {
		data = fmt.Appendf(data, "%s\n%s", lockedLine, l)
	}
	sum := sha256.Sum256(data)
	data = fmt.Appendf(data, "%s%x\n", sumLine, sum)
	if len(data) > remote.MaxKeyset {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), remote.MaxKeyset)
	}
	return Parse(data)
}

// Parse decodes a keyset file, and keeps data. The error matches [ErrDamaged], or
// [remote.ErrNewerFormat] if a newer program wrote the file.
func Parse(data []byte) (*File, error) {
	if len(data) > remote.MaxKeyset {
		return nil, malformed("more than %d bytes", remote.MaxKeyset)
	}
	switch err := remote.CheckHeader(data, remote.TypeKeyset); {
	case errors.Is(err, remote.ErrNewerFormat):
		return nil, err
	case err != nil:
		return nil, malformed("%v", err)
	}

	r := &lineReader{rest: data[remote.HeaderSize:]}
	version, _ := bytes.CutPrefix(r.next(), []byte(firstLine))
	if number, err := strconv.ParseUint(string(version), 10, 32); err == nil && number > 1 {
		return nil, fmt.Errorf("%w: keyset of version %d", remote.ErrNewerFormat, number)
	}
	if string(version) != formatNumber {
		return nil, malformed("not a keyset")
	}
	if err := checkSum(data); err != nil {
		return nil, err
	}

	f := &File{data: data}
	if err := f.parse(r); err != nil {
		return nil, err
	}
	return f, nil
}

// checkSum checks the last line.
func checkSum(data []byte) error {
	const length = len(sumLine) + 2*sha256.Size + 1
	before := data[:max(0, len(data)-length)]
	sum := sha256.Sum256(before)
	if !bytes.Equal(data[len(before):], []byte(sumLine+hex.EncodeToString(sum[:])+"\n")) {
		return malformed("the checksum does not match")
	}
	return nil
}

// parse reads the lines after the first one.
func (f *File) parse(r *lineReader) error {
	id, isRemote := bytes.CutPrefix(r.next(), []byte("remote "))
	serial, isSerial := bytes.CutPrefix(r.next(), []byte("serial "))
	number, err := strconv.ParseUint(string(serial), 10, 64)
	if !isRemote || !isSerial || err != nil || number == 0 || strconv.FormatUint(number, 10) != string(serial) {
		return malformed("no remote or serial")
	}
	f.Serial = number
	if f.Remote, err = parseID(string(id)); err != nil {
		return err
	}

	for {
		line := r.next()
		kind, isEnvelope := bytes.CutPrefix(line, []byte("envelope "))
		switch {
		case isEnvelope:
			err = f.parseEnvelope(Kind(kind), r)
		case string(line) == lockedLine:
			err = f.parseLocked(r)
		case bytes.HasPrefix(line, []byte(sumLine)) && len(r.rest) == 0 && len(f.envelopes) > 0:
			return nil
		default:
			return malformed("an unknown line, or none")
		}
		if err != nil {
			return err
		}
	}
}

func (f *File) parseEnvelope(kind Kind, r *lineReader) error {
	known := kind == Hybrid && len(f.envelopes) == 0 || kind == Classic && (len(f.envelopes) == 0 || f.envelopes[0].kind == Hybrid)
	if !known || len(f.envelopes) == 2 || len(f.locked) > 0 {
		return malformed("envelope %.20q in this place", kind)
	}
	e := envelope{kind: kind}
	var err error
	if e.armored, e.data, err = r.nextArmored(); err != nil {
		return err
	}
	if e.stanzas, err = stanzasOf(e.data); err != nil {
		return malformed("envelope %s: %v", kind, err)
	}
	f.envelopes = append(f.envelopes, e)
	return nil
}

func (f *File) parseLocked(r *lineReader) error {
	armored, _, err := r.nextArmored()
	if err != nil {
		return err
	}
	if len(f.locked) == MaxLocked {
		return malformed("more than %d locked identities", MaxLocked)
	}
	if err := checkLocked(armored); err != nil {
		return err
	}
	f.locked = append(f.locked, armored)
	return nil
}

// lineReader reads lines of a keyset file.
type lineReader struct{ rest []byte }

// next returns the next line without its end. It returns nil at the end of the file, and for a last line without an
// end.
func (r *lineReader) next() []byte {
	line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
	if !ok {
		r.rest = nil
		return nil
	}
	r.rest = rest
	return line
}

// nextArmored reads an armored age file. It accepts only the form that kist writes.
func (r *lineReader) nextArmored() (armored, data []byte, err error) {
	begin := r.rest
	for line := r.next(); string(line) != armor.Footer; line = r.next() {
		if line == nil {
			return nil, nil, malformed("an age file without an end")
		}
	}
	armored = begin[:len(begin)-len(r.rest)]
	if data, err = dearmor(armored); err != nil || !bytes.Equal(toArmor(data), armored) {
		return nil, nil, malformed("an age file in another form")
	}
	return armored, data, nil
}

func dearmor(armored []byte) ([]byte, error) {
	return io.ReadAll(armor.NewReader(bytes.NewReader(armored)))
}

func toArmor(data []byte) []byte {
	var b bytes.Buffer
	w := armor.NewWriter(&b)
	_, err := w.Write(data)
	if errors.Join(err, w.Close()) != nil {
		return nil // not for a buffer
	}
	return b.Bytes()
}

// stanzasOf returns the stanzas in the header of an age file.
func stanzasOf(data []byte) ([]*age.Stanza, error) {
	var reader stanzaReader
	_, err := age.Decrypt(bytes.NewReader(data), &reader)
	if len(reader.stanzas) == 0 {
		return nil, err
	}
	return reader.stanzas, nil
}

// stanzaReader is an identity that opens nothing, and keeps the stanzas.
type stanzaReader struct{ stanzas []*age.Stanza }

// Unwrap implements [age.Identity].
func (r *stanzaReader) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	r.stanzas = stanzas
	return nil, age.ErrIncorrectIdentity
}

// checkLocked returns an error unless an armored age file is locked by one passphrase of a bearable cost.
func checkLocked(armored []byte) error {
	data, err := dearmor(armored)
	if err != nil {
		return malformed("a locked identity: %v", err)
	}
	stanzas, err := stanzasOf(data)
	if err != nil {
		return malformed("a locked identity: %v", err)
	}
	return checkScrypt(stanzas)
}

// maxWork bounds the cost of a passphrase: scrypt with N = 2^20 takes 1 GiB, and seconds. Age itself accepts 4 GiB.
const maxWork = 20

// checkScrypt returns an error unless the only stanza is one of scrypt that costs at most maxWork.
func checkScrypt(stanzas []*age.Stanza) error {
	if len(stanzas) != 1 || stanzas[0].Type != scryptStanza || len(stanzas[0].Args) != 2 {
		return malformed("a locked identity that no passphrase opens")
	}
	work, err := strconv.ParseUint(stanzas[0].Args[1], 10, 8)
	if err != nil || work == 0 || work > maxWork {
		return malformed("a locked identity that needs too much memory")
	}
	return nil
}

const scryptStanza = "scrypt"
