package grep

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Found identifies a searched file.
type Found struct {
	Path   string
	Commit object.ID // zero: the file is in the index or the worktree
}

// File is a file to search.
type File struct {
	Found
	Open func() (io.ReadCloser, error)
}

// Options select what [Search] reports of a file.
type Options struct {
	Pattern       *Pattern
	Invert        bool // lines that do not match
	Before, After int  // lines around them
	Spans         bool // the places of matches, too
	Count         bool // only the number of lines
	First         bool // only whether there is a line
}

// Line is a line of a file.
type Line struct {
	Number int // from 1
	Text   []byte
	Hit    bool    // false: the line is only near a match
	Gap    bool    // lines were left out before it, or it is the first one
	Spans  [][]int // the matches in Text
}

// Block is a part of a file's result.
type Block struct {
	*File
	Lines []Line
	Last  bool // nothing follows; then the rest is set

	Count  int  // of lines; at most 1 with Options.First, or if the file is binary
	Binary bool // it has a NUL byte near its start
	Err    error
}

// Sizes of the search.
const (
	blockSize   = 1 << 20  // bytes of a file that are searched at once
	maxLine     = 16 << 20 // bytes; a longer line counts as several
	binaryStart = 8000     // bytes in which a NUL makes a file binary, as in git
	maxReported = 64 << 10 // bytes of lines in a Block
)

// Search searches files, several at once, and calls report with the results in the order of
// the files. A file is read block by block, so memory does not depend on its size. An error
// of a file is in its last Block. Search leaves out files that do not exist. It ends with
// the first error of report or of files.
func Search(ctx context.Context, files iter.Seq2[*File, error], o Options, jobs int, report func(Block) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()

	type job struct {
		file *File
		out  chan Block
		err  error
	}
	const waiting = 64 // jobs, so that goroutines seldom wait for each other
	todo, order := make(chan job, waiting), make(chan job, waiting)
	for range jobs {
		workers.Go(func() {
			s := scanner{stop: ctx.Done(), o: &o}
			for j := range todo {
				if s.isStopped() {
					return
				}
				s.searchFile(j.file, j.out)
			}
		})
	}
	workers.Go(func() {
		defer close(todo)
		defer close(order)
		for f, err := range files {
			j := job{f, make(chan Block, 4), err}
			select {
			case order <- j:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			select {
			case todo <- j:
			case <-ctx.Done():
				return
			}
		}
	})

	for j := range order {
		if j.err != nil {
			return j.err
		}
		for last := false; !last; {
			select {
			case b := <-j.out:
				last = b.Last
				if errors.Is(b.Err, fs.ErrNotExist) {
					continue
				}
				if err := report(b); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return ctx.Err()
}

// scanner searches one file after another. It keeps its buffers.
type scanner struct {
	stop       <-chan struct{} // closed when the search ends
	o          *Options
	buf, lower []byte
	out        chan Block

	block    Block
	reported int // bytes of lines in block
	number   int // of the lines before the text
	last     int // the number of the last reported line
	until    int // the last line to report after a hit
	before   [][]byte
}

func (s *scanner) searchFile(f *File, out chan Block) {
	s.out, s.block = out, Block{File: f}
	s.reported, s.number, s.last, s.until, s.before = 0, 0, 0, 0, nil
	r, err := f.Open()
	if err == nil {
		err = s.readBlocks(r)
		r.Close()
	}
	s.block.Err, s.block.Last = err, true
	s.sendBlock()
}

func (s *scanner) sendBlock() {
	select {
	case s.out <- s.block:
	case <-s.stop:
	}
	s.block.Lines, s.reported = nil, 0
}

// isStopped reports whether the search has ended, so that the rest of the file need not be read.
func (s *scanner) isStopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// readBlocks searches a file block by block. Each block ends with a line.
func (s *scanner) readBlocks(r io.Reader) error {
	s.buf = s.buf[:0]
	for first := true; ; first = false {
		end, last, err := s.fillBuffer(r)
		if err != nil {
			return err
		}
		if first {
			s.block.Binary = bytes.IndexByte(s.buf[:min(end, binaryStart)], 0) >= 0
		}
		if s.searchLines(s.buf[:end]) || last || s.isStopped() {
			return nil
		}
		s.buf = s.buf[:copy(s.buf, s.buf[end:])]
	}
}

// fillBuffer reads until the buffer has a block, or all of the rest of the file. It returns the end
// of the last line in the buffer, and whether that is the end of the file.
func (s *scanner) fillBuffer(r io.Reader) (end int, last bool, err error) {
	size := blockSize
	for {
		if cap(s.buf) < size {
			s.buf = append(make([]byte, 0, size), s.buf...)
		}
		for len(s.buf) < size && err == nil {
			var n int
			n, err = r.Read(s.buf[len(s.buf):size])
			s.buf = s.buf[:len(s.buf)+n]
		}
		if err == io.EOF {
			return len(s.buf), true, nil
		}
		if err != nil {
			return 0, false, err
		}
		if end := bytes.LastIndexByte(s.buf, '\n') + 1; end > 0 {
			return end, false, nil
		}
		if size *= 2; size > maxLine {
			return len(s.buf), false, nil
		}
	}
}

// searchLines searches lines. It reports whether the rest of the file need not be read.
func (s *scanner) searchLines(text []byte) (done bool) {
	o := s.o
	lower := o.Pattern.Lower(text, s.lower)
	if lower != nil {
		s.lower = lower
	}
	for at := 0; at < len(text); {
		start, end, ok := o.Pattern.Next(text, lower, at)
		if !ok {
			start, end = len(text), len(text)
		}
		next := min(end+1, len(text))
		if !o.Invert {
			s.passLines(text[at:start])
			if ok && s.noteHit(text[start:end]) {
				return true
			}
			at = next
			continue
		}
		for line := range bytes.Lines(text[at:start]) {
			if s.noteHit(bytes.TrimSuffix(line, []byte("\n"))) {
				return true
			}
		}
		s.passLines(text[start:next])
		at = next
	}
	for i, line := range s.before { // the text changes
		s.before[i] = bytes.Clone(line)
	}
	return false
}

// passLines goes over lines that are no result. Some of them may be near one.
func (s *scanner) passLines(lines []byte) {
	for s.number < s.until && len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		s.number++
		s.addLine(line, s.number, false)
	}
	if len(lines) == 0 {
		return
	}
	s.number += bytes.Count(lines, []byte("\n"))
	lines, ended := bytes.CutSuffix(lines, []byte("\n"))
	if !ended {
		s.number++
	}
	var before [][]byte // the last lines, backwards
	for more := true; more && len(before) < s.o.Before; {
		n := bytes.LastIndexByte(lines, '\n')
		before = append(before, lines[n+1:])
		lines, more = lines[:max(n, 0)], n >= 0
	}
	for _, line := range slices.Backward(s.before) {
		if len(before) < s.o.Before {
			before = append(before, line)
		}
	}
	slices.Reverse(before)
	s.before = before
}

// noteHit notes a line that is a result. It reports whether no other is wanted.
func (s *scanner) noteHit(line []byte) (done bool) {
	s.number++
	s.block.Count++
	switch {
	case s.o.First, s.block.Binary && !s.o.Count:
		return true
	case s.o.Count:
		return false
	}
	for i, before := range s.before {
		s.addLine(before, s.number-len(s.before)+i, false)
	}
	s.before = nil
	s.addLine(line, s.number, true)
	s.until = s.number + s.o.After
	return s.isStopped()
}

func (s *scanner) addLine(text []byte, number int, hit bool) {
	l := Line{Number: number, Text: bytes.Clone(text), Hit: hit, Gap: s.last == 0 || number != s.last+1}
	if hit && s.o.Spans && !s.o.Invert {
		l.Spans = s.o.Pattern.Matches(l.Text)
	}
	s.last = number
	s.block.Lines = append(s.block.Lines, l)
	if s.reported += len(text) + 64; s.reported > maxReported {
		s.sendBlock()
	}
}
