package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// folder is a data set that has been made.
type folder struct {
	dataSet
	path    string
	held    census
	touched time.Time // when files in it were written last
	changes uint64
}

// minAge is how long the files of a set stay as they are before a round. Who
// reads a file right after it was written cannot rely on its times, and has to
// read it again: kist does so within a minute, and git within the grain of the
// clock. Most files that people have are older.
const minAge = 61 * time.Second

// prepare makes the files.
func (f *folder) prepare(ctx context.Context) error {
	if err := os.Mkdir(f.path, 0o777); err != nil {
		return err
	}
	if err := f.make(ctx, f.path); err != nil {
		return fmt.Errorf("make %s: %w", f.name, err)
	}
	held, err := count(f.path)
	f.held, f.touched = held, time.Now()
	return err
}

// age waits until the files are of some age.
func (f *folder) age(ctx context.Context, log io.Writer) error {
	wait := time.Until(f.touched.Add(minAge))
	if wait <= 0 {
		return ctx.Err()
	}
	fmt.Fprintf(log, "waiting %s, for the files of %s to be %s old\n", wait.Round(time.Second), f.name, minAge)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change makes a small change, another one each time.
func (f *folder) change() error {
	f.changes++
	f.touched = time.Now()
	return f.mutate(f.path, f.changes)
}

// update makes the files equal to those in another folder.
func (f *folder) update(ctx context.Context, from string) error {
	f.touched = time.Now()
	return mirror(ctx, from, f.path)
}
