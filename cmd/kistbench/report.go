package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// reportVersion is the version of the JSON form. Fields may be added within a
// version; none changes its meaning.
const reportVersion = 1

// Report has all results of a run.
type Report struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // of the whole run
	Quick   bool      `json:"quick"`
	Rounds  int       `json:"rounds"`
	Machine Machine   `json:"machine"`
	Tools   []Program `json:"tools"` // in the order of columns, kist first
	Skipped []Skip    `json:"skipped,omitempty"`
	Sets    []Set     `json:"sets"`
	Results []*Result `json:"results"`
	Curves  []*Curve  `json:"curves,omitempty"`
}

// Program is a tool that was measured.
type Program struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Settings string `json:"settings,omitempty"` // that are not the defaults
}

// Skip is a measurement that was not possible.
type Skip struct {
	What string `json:"what"` // a tool, a set, or "TOOL on SET"
	Why  string `json:"why"`
}

// Set describes a data set.
type Set struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"` // the sum of the sizes of the files
}

// Result has the samples of a tool for a piece of work on a set.
type Result struct {
	Set     string   `json:"set"`
	Work    string   `json:"work"` // see workFirst
	Tool    string   `json:"tool"`
	Samples []Sample `json:"samples"`
}

// Pieces of work. The results of floorTool, which is no tool, are lower limits for every tool: to
// read every file, to write and flush as many bytes as kist stores, or to copy the files.
const (
	workFirst     = "first"     // a version, into an empty repository
	workFlush     = "flush"     // write and flush as many bytes as the first version stores
	workUnchanged = "unchanged" // a version without a change
	workStatus    = "status"    // status without a change
	workMetadata  = "metadata"  // a version with all metadata, into an empty repository
	workChanged   = "changed"   // a version after a change
	workPush      = "push"      // send all commits to an empty remote; the traffic has that of 'remote add', too
	workFetch     = "fetch"     // ask the remote for news, without any; each step is another pair
	workList      = "list"      // find all files of the last version, in a mount
	workRead      = "read"      // read all files of the last version, in a mount
	workRequest   = "request"   // answer requests of a small file over HTTP; the seconds are the 99th percentile
	workCopy      = "copy"      // copy the remote to an empty one
	workWeb       = "web"       // as restore, but from a web server that publishes the remote
	workRestore   = "restore"   // write the last version to a new folder
	workLazy      = "lazy"      // a clone or a mount without content
	workOpen      = "open"      // then read one small file
	workPart      = "part"      // then a folder of 1,000
	workAgain     = "again"     // the same folder again, after its files were removed
	workLarge     = "large"     // then a large file
	workNext      = "next"      // a version of each later release
	workCompact   = "compact"   // gc
	floorTool     = "floor"
)

// Curve has the cost of work of kist, as the number of files or commits grows.
type Curve struct {
	Name   string  `json:"name"` // history or files
	Work   string  `json:"work"` // commit, status or log
	X      string  `json:"x"`    // the unit of the X of points
	Points []Point `json:"points"`
}

// Point is a point of a curve. Its sample has medians.
type Point struct {
	X int `json:"x"`
	Sample
}

// add adds a sample.
func (r *Report) add(set, work, tool string, s Sample) {
	found := r.result(set, work, tool)
	if found == nil {
		found = &Result{Set: set, Work: work, Tool: tool}
		r.Results = append(r.Results, found)
	}
	found.Samples = append(found.Samples, s)
}

// result returns the result of a tool, or nil.
func (r *Report) result(set, work, tool string) *Result {
	for _, x := range r.Results {
		if x.Set == set && x.Work == work && x.Tool == tool {
			return x
		}
	}
	return nil
}

// samples returns the samples of a result, or none.
func (r *Report) samples(set, work, tool string) []Sample {
	if x := r.result(set, work, tool); x != nil {
		return x.Samples
	}
	return nil
}

// peers returns the results of the other programs for a piece of work.
func (r *Report) peers(set, work string) []*Result {
	var found []*Result
	for _, x := range r.Results {
		if x.Set == set && x.Work == work && x.Tool != kistTool && x.Tool != encryptedTool && x.Tool != floorTool {
			found = append(found, x)
		}
	}
	return found
}

// set returns a data set of the report, or nil.
func (r *Report) set(name string) *Set {
	for i := range r.Sets {
		if r.Sets[i].Name == name {
			return &r.Sets[i]
		}
	}
	return nil
}

// curve returns a curve of the report, or nil. It computes the curve over files from the results.
func (r *Report) curve(name, work string) *Curve {
	if name == curveFiles {
		if c := filesCurve(r, work); len(c.Points) > 0 {
			return c
		}
		return nil
	}
	for _, c := range r.Curves {
		if c.Name == name && c.Work == work {
			return c
		}
	}
	return nil
}

// point adds a point to a curve.
func (r *Report) point(name, work, x string, p Point) {
	c := r.curve(name, work)
	if c == nil {
		c = &Curve{Name: name, Work: work, X: x}
		r.Curves = append(r.Curves, c)
	}
	c.Points = append(c.Points, p)
}

func (r *Report) skip(what, why string) { r.Skipped = append(r.Skipped, Skip{what, why}) }

func (r *Report) write(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o666)
}

func readReport(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != reportVersion {
		return nil, fmt.Errorf("%s: the report has version %d, want %d", path, r.Version, reportVersion)
	}
	return &r, nil
}
