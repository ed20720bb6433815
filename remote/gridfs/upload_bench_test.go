package gridfs

import (
	"context"
	"fmt"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// BenchmarkPut stores blobs of 64 MiB, several at once, on a fake server.
// peak-MiB is the largest growth of the heap.
func BenchmarkPut(b *testing.B) {
	const size = 64 << 20
	for _, uploads := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint("uploads=", uploads), func(b *testing.B) {
			f := startFake(b, replicaSet()...)
			f.countAll(size) // no chunk is missing
			backend := openFake(b, f, "")
			b.SetBytes(int64(uploads * size))
			peak := watchHeap()
			for b.Loop() {
				var group sync.WaitGroup
				for i := range uploads {
					group.Go(func() {
						if err := backend.Put(context.Background(), fmt.Sprint("packs/", i), endless{}, size); err != nil {
							b.Error(err)
						}
					})
				}
				group.Wait()
			}
			b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
		})
	}
}

// endless is a body that takes no memory.
type endless struct{}

func (endless) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}

// watchHeap returns a function that returns the largest growth of the heap since
// the call of watchHeap, in bytes with garbage.
func watchHeap() func() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	var most uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	before := heap()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most = max(most, heap())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return most - min(most, before)
	}
}
