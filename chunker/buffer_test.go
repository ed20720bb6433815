package chunker

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
)

// tinyPool returns a Chunker with so little memory that calls often wait for it.
func tinyPool(t testing.TB, p Params, blocks int) *Chunker {
	c := mustNew(t, p)
	c.blockSize = 2 * p.Max
	c.pool = newPool(c.blockSize, blocks)
	return c
}

// wantFree checks that all blocks of the pool are free.
func wantFree(t testing.TB, c *Chunker, blocks int) {
	t.Helper()
	if got := len(c.pool.free) + c.pool.more; got != blocks {
		t.Errorf("%d of %d blocks are free, want all", got, blocks)
	}
}

func TestSplitBuffersSameChunks(t *testing.T) {
	for name, data := range inputs() {
		c := tinyPool(t, small, 2)
		want := split(t, c, bytes.NewReader(data), data)
		var sizes []int
		var joined []byte
		err := c.SplitBuffers(bytes.NewReader(data), func(b *Buffer) error {
			defer b.Release()
			sizes = append(sizes, len(b.Bytes()))
			joined = append(joined, b.Bytes()...)
			return nil
		})
		if err != nil || !slices.Equal(sizes, want) || !bytes.Equal(joined, data) {
			t.Errorf("%s: %d chunks of %d bytes, %v; want %d chunks", name, len(sizes), len(joined), err, len(want))
		}
		wantFree(t, c, 2)
	}
}

// TestSplitBuffersParallel checks that a buffer does not change until its release, while
// other goroutines use it in any order and cutting continues. Several streams share a pool
// with little memory, so that they wait. None waits for ever.
func TestSplitBuffersParallel(t *testing.T) {
	for _, blocks := range []int{1, 2, 3, 8} {
		c := tinyPool(t, small, blocks)
		type job struct {
			stream, index int
			buf           *Buffer
		}
		const streams = 5

		jobs := make(chan job, 4)
		var mu sync.Mutex
		got := make([]map[int][]byte, streams)
		var workers, cutters sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				for j := range jobs {
					before := bytes.Clone(j.buf.Bytes())
					split(t, c, bytes.NewReader(before[:10]), before[:10]) // Split never waits
					if !bytes.Equal(before, j.buf.Bytes()) {
						t.Error("a buffer changed before it was released")
					}
					mu.Lock()
					got[j.stream][j.index] = before
					mu.Unlock()
					j.buf.Release()
				}
			})
		}

		for stream := range streams {
			got[stream] = map[int][]byte{}
			cutters.Go(func() {
				index := 0
				err := c.SplitBuffers(bytes.NewReader(random(byte(stream), 300_000)), func(b *Buffer) error {
					jobs <- job{stream, index, b}
					index++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}

		cutters.Wait()
		close(jobs)
		workers.Wait()

		for stream := range streams {
			var joined []byte
			for i := range len(got[stream]) {
				joined = append(joined, got[stream][i]...)
			}
			if !bytes.Equal(joined, random(byte(stream), 300_000)) {
				t.Errorf("%d blocks: the chunks of stream %d join to %d other bytes", blocks, stream, len(joined))
			}
		}

		wantFree(t, c, blocks)
	}
}

func TestSplitBuffersErrors(t *testing.T) {
	c := tinyPool(t, small, 2)
	data := random(1, 100_000)
	broken := errors.New("broken")
	err := c.SplitBuffers(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), func(b *Buffer) error {
		b.Release()
		return nil
	})
	if err != broken {
		t.Errorf("SplitBuffers with a failing reader: %v, want its error", err)
	}
	var kept *Buffer
	err = c.SplitBuffers(bytes.NewReader(data), func(b *Buffer) error {
		kept = b
		return broken
	})
	if err != broken || !bytes.Equal(kept.Bytes(), data[:len(kept.Bytes())]) {
		t.Errorf("SplitBuffers with a failing emit: %v, want its error and the first chunk", err)
	}
	kept.Release()
	wantFree(t, c, 2)
	defer func() {
		if recover() == nil {
			t.Error("a second Release did not panic")
		}
	}()
	kept.Release()
}

func TestPoolIsBounded(t *testing.T) {
	for _, avg := range []int{64 << 10, 256 << 10, 1 << 20} {
		c := mustNew(t, ParamsFor(testPolynomial, avg))
		if got := c.pool.more * c.blockSize; got > 3*16<<20 || c.pool.more < minBlocks || c.blockSize < 2*c.params.Max {
			t.Errorf("average %d: %d blocks of %d bytes; want at most 48 MiB", avg, c.pool.more, c.blockSize)
		}
	}
}
