package web

import (
	"bufio"
	"encoding/csv"
	"errors"
	"html/template"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The limits of a table of a file.
const (
	sheetRows    = 500 // on a page
	sheetColumns = 50
	maxCellText  = 300     // bytes
	maxRecord    = 1 << 20 // bytes of a row
)

// sheet is a part of a table in a file.
type sheet struct {
	Head []cell
	Rows [][]cell
	More int // columns that are left out
}

// cell is a cell of a table.
type cell struct {
	Text   template.HTML
	Number bool
}

// isSheet reports whether a name is that of a table.
func isSheet(name string) bool { return separators[strings.ToLower(path.Ext(name))] != "" }

// separators has the separators that a table can have, by the end of its name.
var separators = map[string]string{".csv": ",;\t", ".tsv": "\t", ".tab": "\t"}

// errNoSheet means that a file is not a table, whatever its name is.
var errNoSheet = errors.New("not a table")

// readSheet reads rows of a table, from the row with a number on. The row of titles has no number.
// More reports whether there are further rows.
func readSheet(text io.Reader, name string, start int) (s *sheet, more bool, err error) {
	limited := &recordReader{Reader: text, left: maxRecord}
	buffered := bufio.NewReaderSize(limited, 4096)
	if bom, _ := buffered.Peek(3); string(bom) == "\ufeff" {
		_, _ = buffered.Discard(3)
	}
	first, _ := buffered.Peek(4096)
	r := csv.NewReader(buffered)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = separator(string(first), name), true, -1, true

	s = &sheet{}
	space := room{sheetRows, maxShown}
	for number := 0; ; number++ {
		limited.left = maxRecord
		record, err := r.Read()
		switch {
		case err == io.EOF:
			return s, false, nil
		case err != nil:
			return nil, false, err
		case number > 0 && number < start:
			continue
		}

		s.More = max(s.More, len(record)-sheetColumns)
		row, size := newRow(record)
		if number == 0 {
			s.Head = row
			continue
		}
		if !space.takeLine(size) {
			return s, true, nil
		}
		for i := range min(len(row), len(s.Head)) {
			s.Head[i].Number = row[i].Number // above the numbers
		}
		s.Rows = append(s.Rows, row)
	}
}

// newRow returns the cells of a row, and its text for the count of space.
func newRow(record []string) (row []cell, all template.HTML) {
	for _, text := range record[:min(len(record), sheetColumns)] {
		shown := visible(cut(text, maxCellText))
		_, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		row = append(row, cell{shown, err == nil})
		all += shown
	}
	return row, all
}

// separator returns the separator of a table: the one that its first line has most often.
func separator(text, name string) rune {
	line, _, _ := strings.Cut(text, "\n")
	list := []rune(separators[strings.ToLower(path.Ext(name))])
	return slices.MaxFunc(list, func(a, b rune) int { return strings.Count(line, string(a)) - strings.Count(line, string(b)) })
}

// recordReader is a reader that fails after a number of bytes, which its caller sets for each
// record. Otherwise a single quote could make one record of a whole file.
type recordReader struct {
	io.Reader
	left int
}

func (r *recordReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errNoSheet
	}
	n, err := r.Reader.Read(p)
	r.left -= n
	return n, err
}
