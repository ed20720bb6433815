package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Content is made from seeds. So it is the same in every run and on every machine.

// noise returns an endless reader of bytes that do not compress.
func noise(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// writeNoise writes a file of size bytes that do not compress.
func writeNoise(path string, seed uint64, size int64) error {
	return writeFile(path, func(w io.Writer) error {
		_, err := io.CopyN(w, noise(seed), size)
		return err
	})
}

// words are the words of text.
var words = strings.Fields(`the of and to in is that for it as was with be by on not he his but at are this have from or
had an they which one you were all her she there would their we him been has when who will no more if out so what up said
its about than into them can only other time new some could these two may first then do any like my now over such our man
me even most made after also well did many before must through years back where much your way down should because long
chest household keeps harbour letter ledger winter barley parish measure copper window orchard candle river stone bridge`)

// text appends size bytes of words in lines to buf. They compress to about a third of their
// size, like prose.
func text(buf []byte, rng *rand.Rand, size int) []byte {
	end := len(buf) + size
	for column := 0; len(buf) < end; {
		word := words[min(rng.IntN(len(words)), rng.IntN(len(words)))]
		if rng.IntN(12) == 0 {
			word = strconv.Itoa(rng.IntN(100_000))
		}
		buf = append(buf, word...)
		if column += len(word) + 1; column > 72 {
			buf, column = append(buf, '\n'), 0
		} else {
			buf = append(buf, ' ')
		}
	}
	return append(buf[:end-1], '\n')
}

// writeTexts writes n small files of text, of at most most bytes each. Name returns the path of
// a file below dir.
func writeTexts(dir string, n, most int, seed uint64, name func(i int) string) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	var buf []byte
	for i, last := 0, ""; i < n; i++ {
		path := filepath.Join(dir, name(i))
		if parent := filepath.Dir(path); parent != last {
			if err := os.MkdirAll(parent, 0o777); err != nil {
				return err
			}
			last = parent
		}
		buf = text(buf[:0], rng, 100+rng.IntN(most-100))
		if err := os.WriteFile(path, buf, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// pageSize is the size of the pages of a database, in bytes.
const pageSize = 4096

// writeDatabase writes a file of n pages like SQLite's: a header, and pages of records.
func writeDatabase(path string, n int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	return writeFile(path, func(w io.Writer) error {
		page := make([]byte, 0, 2*pageSize)
		for i := range n {
			page = databasePage(page[:0], rng, i)
			if _, err := w.Write(page); err != nil {
				return err
			}
		}
		return nil
	})
}

// databasePage appends page i. It is full of records of a number, a time, a key that does not
// compress, and text.
func databasePage(page []byte, rng *rand.Rand, i int) []byte {
	if i == 0 {
		page = append(page, "SQLite format 3\x00"...)
	}
	page = append(page, 13, 0, 0)
	for row := 0; len(page) < pageSize; row++ {
		page = binary.BigEndian.AppendUint32(page, uint32(i*20+row))
		page = binary.BigEndian.AppendUint64(page, 1_700_000_000_000+uint64(i*1000+rng.IntN(1000)))
		page = binary.BigEndian.AppendUint64(page, rng.Uint64())
		page = text(page, rng, 60+rng.IntN(200))
	}
	return page[:pageSize]
}

// changePages replaces a share of the pages of a file by new ones. The seed chooses them, all
// over the file.
func changePages(path string, share float64, seed uint64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	pages := int(info.Size() / pageSize)
	for range int(float64(pages) * share) {
		i := rng.IntN(pages)
		if _, err := f.WriteAt(databasePage(nil, rng, i), int64(i)*pageSize); err != nil {
			return err
		}
	}
	return nil
}

// putInFront inserts size bytes that do not compress at the start of a file.
func putInFront(path string, seed uint64, size int64) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer old.Close()
	longer := path + ".longer"
	err = writeFile(longer, func(w io.Writer) error {
		_, err := io.Copy(w, io.MultiReader(io.LimitReader(noise(seed), size), old))
		return err
	})
	if err != nil {
		return err
	}
	return os.Rename(longer, path)
}

// appendLine adds a line to a file.
func appendLine(path string, n uint64) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "a line that was added, number %d\n", n)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeFile makes a file with the bytes that write writes.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
