package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// copyChunks receives the chunks of the last window.
func (g *packGiver) copyChunks(ctx context.Context) error {
	g.plan.sortRecords()
	objects, bytes := int64(0), int64(0)
	for r := range g.plan.readRuns() {
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
	return g.copyPlanned(ctx, g.plan)
}

// copyWindow receives the planned chunks during the walk, because there are many. The session has them from then on, so the
// walk does not plan them again.
func (g *packGiver) copyWindow(ctx context.Context) error {
	plan := g.plan
	g.plan = newReadPlan()
	plan.sortRecords()
	return g.copyPlanned(ctx, plan)
}

// copyPlanned receives the chunks of a sorted plan, several reads at once. While one read waits
// for the remote, others decode.
func (g *packGiver) copyPlanned(ctx context.Context, plan *readPlan) error {
	return plan.readAll(ctx, g.jobs, g.readCounted, func(ctx context.Context, v readValue) error {
		bad := v.err
		if bad == nil {
			bad = g.storeValue(ctx, v.Entry, v.value, v.held)
		}
		if bad == nil {
			return nil
		}
		if !IsBadCopy(bad) {
			return fmt.Errorf("store %s: %w", v.Key, bad)
		}
		_, err := g.rereadObject(ctx, v.Key)
		return err
	})
}

// storeValue stores a value, verified. Held is a part of its pack.
func (g *packGiver) storeValue(ctx context.Context, e pack.Entry, value []byte, held pack.Part) error {
	if !frame.IsNear(value) {
		return g.storeStored(ctx, e, value)
	}
	data, err := g.values.Decode(ctx, e, value, held)
	if err != nil {
		return err
	}
	return g.storeObject(ctx, e, data)
}

// storeStored stores a value as it is, verified.
func (g *packGiver) storeStored(ctx context.Context, e pack.Entry, value []byte) error {
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

// storeObject stores the object of e, and not its value: the value is a patch, and its
// base may not be here. The hash of data was checked.
func (g *packGiver) storeObject(ctx context.Context, e pack.Entry, data []byte) error {
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

// decodeAndStore stores a value, verified, and returns its object, which values decodes.
func (g *packGiver) decodeAndStore(ctx context.Context, values *pack.Values, e pack.Entry, value []byte) ([]byte, error) {
	data, err := values.Decode(ctx, e, value, pack.Part{})
	switch {
	case err != nil:
		return nil, err
	case frame.IsNear(value):
		return data, g.storeObject(ctx, e, data)
	}
	return data, g.storeStored(ctx, e, value)
}

// rereadObject receives an object that was damaged or gone where it was looked for
// first: from there once more, then from each other pack that has it. If one
// of these is gone, the error matches [remote.ErrNotFound].
func (g *packGiver) rereadObject(ctx context.Context, key object.Key) ([]byte, error) {
	entries, err := g.where.EntriesOf(ctx, key)
	if err != nil {
		return nil, err
	}

	var gone, damage error
	for _, e := range entries {
		value := make([]byte, e.Stored)
		n, err := g.readCounted(ctx, e.Pack, value, int64(e.Offset))
		if err == nil && n < len(value) {
			err = ErrShortPack(e.Pack, int64(e.Offset)+int64(n))
		}
		var data []byte
		if err == nil {
			data, err = g.decodeAndStore(ctx, g.values, e, value)
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

// EntriesOf returns the entries of an object in all live packs. The first is the result of Find.
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
		if x == nil {
			return nil, errInParts
		}
		if e, ok, err := x.Find(key); err != nil {
			return nil, err
		} else if ok {
			add(e)
		}
	}
	return entries, nil
}
