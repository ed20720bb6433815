package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// copyChunks receives the chunks of the plan, several reads at once. While one read waits
// for the remote, others decode.
func (g *packGiver) copyChunks(ctx context.Context) error {
	g.plan.sort()
	objects, bytes := int64(0), int64(0)
	for r := range g.plan.runs() {
		objects += int64(len(r.records))
		bytes += int64(r.size)
	}

	g.meter.Update(func(at *Progress) {
		at.Phase, at.TotalObjects, at.TotalBytes = PhaseCopy, at.Objects+objects, at.Bytes+bytes
	})
	if g.o.BeginChunks != nil && !g.begun {
		g.o.BeginChunks(ctx, objects, bytes)
	}

	g.begun = true

	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(g.jobs)
	buffers := make(chan []byte, g.jobs)
	for range g.jobs {
		buffers <- nil
	}

	for r := range g.plan.runs() {
		if gctx.Err() != nil {
			break
		}
		group.Go(func() error {
			buf := <-buffers
			defer func() { buffers <- buf }()
			if r.size > len(buf) {
				buf = make([]byte, max(r.size, min(2*len(buf), MaxRead)))
			}
			return g.copyRun(gctx, r, buf[:r.size])
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

// copyRun reads a part of a pack into buf and stores its chunks.
func (g *packGiver) copyRun(ctx context.Context, r run, buf []byte) error {
	n, err := g.read(ctx, r.pack, buf, r.off)
	if err != nil && !IsBadCopy(err) {
		return fmt.Errorf("read pack %s: %w", r.pack.Name, err)
	}

	held := pack.Part{Off: r.off, Data: buf[:n]}
	for _, i := range r.records {
		e := g.plan.entry(i)
		start := int(int64(e.Offset) - r.off)
		end := start + int(e.Stored)
		bad := err
		if bad == nil && end > n {
			bad = ErrShortPack(r.pack, r.off+int64(n))
		}
		if bad == nil {
			bad = g.keep(ctx, e, buf[start:end], held)
		}
		if bad == nil {
			continue
		}
		if !IsBadCopy(bad) {
			return fmt.Errorf("store %s: %w", e.Key, bad)
		}
		if _, err := g.readAgain(ctx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// keep stores a value, verified. Held is a part of its pack.
func (g *packGiver) keep(ctx context.Context, e pack.Entry, value []byte, held pack.Part) error {
	if !frame.IsNear(value) {
		return g.keepValue(ctx, e, value)
	}
	data, err := g.values.Decode(ctx, e, value, held)
	if err != nil {
		return err
	}
	return g.keepObject(ctx, e, data)
}

// keepValue stores a value as it is, verified.
func (g *packGiver) keepValue(ctx context.Context, e pack.Entry, value []byte) error {
	var use func(data []byte)
	if g.o.Chunk != nil && e.Key.Kind == object.KindChunk {
		use = func(data []byte) { g.o.Chunk(e.Key.ID, data) }
	}
	if err := g.session.PutStored(ctx, e.Key, value, int(e.Raw), use); err != nil {
		return err
	}
	g.meter.Update(func(at *Progress) { at.Objects++ })
	return nil
}

// keepObject stores the object of e, and not its value: the value is a patch, and its
// base may not be here. The hash of data was checked.
func (g *packGiver) keepObject(ctx context.Context, e pack.Entry, data []byte) error {
	if err := object.Check(e.Key.Kind, data); err != nil {
		return &object.CorruptError{Key: e.Key, Err: err}
	}
	if _, err := g.session.Put(ctx, e.Key.Kind, data); err != nil {
		return err
	}
	if g.o.Chunk != nil && e.Key.Kind == object.KindChunk {
		g.o.Chunk(e.Key.ID, data)
	}
	g.meter.Update(func(at *Progress) { at.Objects++ })
	return nil
}

// store stores a value, verified, and returns its object, which values decodes.
func (g *packGiver) store(ctx context.Context, values *pack.Values, e pack.Entry, value []byte) ([]byte, error) {
	data, err := values.Decode(ctx, e, value, pack.Part{})
	switch {
	case err != nil:
		return nil, err
	case frame.IsNear(value):
		return data, g.keepObject(ctx, e, data)
	}
	return data, g.keepValue(ctx, e, value)
}

// readAgain receives an object that was damaged or gone where it was looked for
// first: from there once more, then from each other pack that has it. If one
// of these is gone, the error matches [remote.ErrNotFound].
func (g *packGiver) readAgain(ctx context.Context, key object.Key) ([]byte, error) {
	entries, err := g.snap.EntriesOf(key)
	if err != nil {
		return nil, err
	}

	var gone, damage error
	for _, e := range entries {
		value := make([]byte, e.Stored)
		n, err := g.read(ctx, e.Pack, value, int64(e.Offset))
		if err == nil && n < len(value) {
			err = ErrShortPack(e.Pack, int64(e.Offset)+int64(n))
		}
		var data []byte
		if err == nil {
			data, err = g.store(ctx, g.values, e, value)
		}
		switch {
		case err == nil:
			return data, nil
		case !IsBadCopy(err):
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		bad := CorruptAt(e, err)
		if errors.Is(err, remote.ErrNotFound) {
			gone = bad
		} else if damage == nil {
			damage = bad
		}
	}
	if gone != nil {
		return nil, gone
	}
	return nil, damage
}

// IsBadCopy reports whether err is about a damaged or missing pack or value. Then another copy
// may be intact.
func IsBadCopy(err error) bool {
	_, corrupt := errors.AsType[*object.CorruptError](err)
	return corrupt || errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged)
}

// CorruptAt returns the error for a damaged value, with its place.
func CorruptAt(e pack.Entry, err error) error {
	if inner, ok := errors.AsType[*object.CorruptError](err); ok && inner.Err != nil {
		err = inner.Err
	}
	return &object.CorruptError{Key: e.Key, Where: fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset), Err: err}
}

// EntriesOf returns the entries of an object in all live packs. The first is the result of find.
func (s *Snapshot) EntriesOf(key object.Key) ([]pack.Entry, error) {
	first, ok, err := s.Find(key)
	if err != nil || !ok {
		return nil, err
	}

	entries := []pack.Entry{first.Entry}
	add := func(e pack.Entry) {
		if s.IsLive(e.Pack.Name) && e.Key == key && e.Pack.Name != first.Pack.Name {
			entries = append(entries, e)
		}
	}

	for _, p := range s.State.Packs {
		for _, e := range p.Entries {
			add(e)
		}
	}

	for _, x := range s.Indexes {
		if e, ok, err := x.Find(key); err != nil {
			return nil, err
		} else if ok {
			add(e)
		}
	}
	return entries, nil
}
