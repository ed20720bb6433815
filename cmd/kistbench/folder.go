package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// folder is a data set on disk.
type folder struct {
	dataSet
	path    string
	held    census
	touched time.Time // the time of the last write
	changes uint64
}

// minAge is the least age of the files of a set when a round begins. A program that reads a file
// right after a write cannot rely on the file's times, and must read it again later. For kist
// that is a minute, for git the grain of the clock. Most files of users are older.
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

// age waits until the files have the least age.
func (f *folder) age(ctx context.Context, log io.Writer) error {
	wait := time.Until(f.touched.Add(minAge))
	if wait <= 0 {
		return ctx.Err()
	}
	fmt.Fprintf(log, "waiting %s until the files of %s are %s old\n", wait.Round(time.Second), f.name, minAge)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change makes a small change. Each call makes another one.
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
