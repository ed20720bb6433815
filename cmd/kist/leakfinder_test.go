package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// leakFinder finds secrets in bytes: as they are, in hexadecimal digits and in base64, also inside compressed
// frames.
type leakFinder struct {
	needles map[[needleStart]byte][]needle
	starts  []byte // a bit for each possible beginning of a needle
}

// needle is a form of a secret.
type needle struct {
	kind string // of the secret
	form []byte
}

// needleStart is the number of bytes by which needles are found. No form of a secret is shorter.
const needleStart = 8

func newLeakFinder() *leakFinder {
	return &leakFinder{needles: map[[needleStart]byte][]needle{}, starts: make([]byte, 1<<21)}
}

// add adds a secret of at least 8 bytes.
func (f *leakFinder) add(kind string, secret []byte) {
	for _, form := range formsOf(secret) {
		start := [needleStart]byte(form)
		f.needles[start] = append(f.needles[start], needle{kind, form})
		at := startBit(form)
		f.starts[at>>3] |= 1 << (at & 7)
	}
}

// startBit returns the bit of starts that stands for the first bytes of data.
func startBit(data []byte) int { return int(data[0])<<16 | int(data[1])<<8 | int(data[2]) }

// formsOf returns the forms of a secret. In base64, its characters depend on the place, and those at its ends on
// its neighbours.
func formsOf(secret []byte) [][]byte {
	digits := hex.EncodeToString(secret)
	forms := [][]byte{secret, []byte(digits), []byte(strings.ToUpper(digits))}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			forms = append(forms, []byte(text[(8*before+5)/6:8*(before+len(secret))/6]))
		}
	}
	return forms
}

// find returns the kinds of the secrets in data, each with one form.
func (f *leakFinder) find(data []byte) map[string]string {
	found := map[string]string{}
	f.findIn(data, found)
	for rest := data; ; {
		_, frame, ok := bytes.Cut(rest, []byte("\x28\xb5\x2f\xfd"))
		if !ok {
			return found
		}
		f.findIn(unpackFrame(rest[len(rest)-len(frame)-4:]), found)
		rest = frame
	}
}

// unpackFrame returns the content of a compressed frame at the beginning of data, as far as it can be read.
func unpackFrame(data []byte) []byte {
	r, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(32<<20))
	if err != nil {
		return nil
	}
	defer r.Close()
	content, _ := io.ReadAll(r) // until the bytes after the frame
	return content
}

func (f *leakFinder) findIn(data []byte, found map[string]string) {
	for i := 0; i+needleStart <= len(data); i++ {
		at := startBit(data[i:])
		if f.starts[at>>3]&(1<<(at&7)) == 0 {
			continue
		}
		for _, n := range f.needles[[needleStart]byte(data[i:])] {
			if bytes.HasPrefix(data[i:], n.form) {
				found[n.kind] = fmt.Sprintf("%q at %d", n.form, i)
			}
		}
	}
}

// TestLeakFinder checks that every form of a secret is found, at each place in base64, and that nothing is found in noise.
func TestLeakFinder(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	secret := noise[:8]
	f := newLeakFinder()
	f.add("secret", secret)
	f.add("text", []byte("a canary that sings"))
	if found := f.find(noise[8:]); len(found) > 0 {
		t.Errorf("found in noise: %v", found)
	}

	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, kind := range []struct {
		name   string
		secret []byte
	}{{"secret", secret}, {"text", []byte("a canary that sings")}} {
		for before := range 4 {
			plain := bytes.Join([][]byte{noise[100 : 100+before], kind.secret, noise[200:300]}, nil)
			for name, form := range map[string][]byte{
				"bytes": plain, "hex": []byte(hex.EncodeToString(plain)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(plain))),
				"base64": []byte(base64.StdEncoding.EncodeToString(plain)), "base64 of URLs": []byte(base64.URLEncoding.EncodeToString(plain)),
				"compressed": w.EncodeAll(bytes.Repeat(plain, 3), nil),
			} {
				data := bytes.Join([][]byte{noise[1000:2000], form, noise[3000:4000]}, nil)
				if found := f.find(data); len(found) != 1 || found[kind.name] == "" {
					t.Errorf("%s, %s, %d bytes before: found %v", kind.name, name, before, found)
				}
			}
		}
	}
}
