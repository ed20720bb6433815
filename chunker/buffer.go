package chunker

import (
	"io"
	"sync"
)

// Buffer is a chunk whose bytes stay valid until it is released.
type Buffer struct {
	data  []byte
	block *block
	pool  *pool
}

// Bytes returns the chunk. It must not be used after Release.
func (b *Buffer) Bytes() []byte { return b.data }

// Release frees the memory for reuse. It is called once, from any goroutine.
func (b *Buffer) Release() {
	if b.data == nil {
		panic("chunker: Buffer released twice")
	}
	b.data = nil
	b.pool.dropUser(b.block)
}

// SplitBuffers is [Chunker.Split] for chunks that stay in use after emit returns. Each Buffer
// belongs to emit, even if emit returns an error. Its last user calls Release.
//
// All calls together use at most 32 MiB, or six times Max if that is more. A call waits while
// unreleased Buffers use all of it. So emit must not wait for a later chunk of its stream, and
// a goroutine must not wait for a SplitBuffers before it releases its Buffers. Split has no
// such limit.
func (c *Chunker) SplitBuffers(r io.Reader, emit func(*Buffer) error) error {
	b := c.pool.waitForBlock()
	defer func() { c.pool.dropUser(b) }()
	s := splitter{c: c, r: r, buf: b.data}
	full := func() {
		next := c.pool.blockAfter(b)
		s.moveTo(next.data)
		if next != b {
			c.pool.dropUser(b)
			b = next
		}
	}
	return s.splitAll(full, func(chunk []byte) error {
		c.pool.addUser(b)
		return emit(&Buffer{chunk, b, c.pool})
	})
}

// block is memory for chunks.
type block struct {
	data  []byte
	users int // Buffers, and the splitter that reads into it
}

// pool is a bounded set of blocks. It reuses the last used block first.
type pool struct {
	size int // bytes of a block

	mu    sync.Mutex
	freed sync.Cond // a block got free, or has one user left
	free  []*block
	more  int // blocks that may still be made
}

func newPool(size, blocks int) *pool {
	p := &pool{size: size, more: blocks}
	p.freed.L = &p.mu
	return p
}

// waitForBlock waits for a block and returns it with one user.
func (p *pool) waitForBlock() *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if b := p.takeFree(); b != nil {
			return b
		}
		p.freed.Wait()
	}
}

// blockAfter returns the block to fill after b: b itself if no Buffer uses it, or a free block.
// It waits until there is one. It needs no block of another splitter, so splitters never wait
// for each other.
func (p *pool) blockAfter(b *block) *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if b.users == 1 {
			return b
		}
		if next := p.takeFree(); next != nil {
			return next
		}
		p.freed.Wait()
	}
}

// takeFree returns a free block, or a new one, or nil if all blocks are in use.
func (p *pool) takeFree() *block {
	var b *block
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	} else if p.more > 0 {
		p.more--
		b = &block{data: make([]byte, p.size)}
	} else {
		return nil
	}
	b.users = 1
	return b
}

func (p *pool) addUser(b *block) {
	p.mu.Lock()
	b.users++
	p.mu.Unlock()
}

func (p *pool) dropUser(b *block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	switch b.users {
	case 0:
		p.free = append(p.free, b)
		p.freed.Broadcast()
	case 1:
		p.freed.Broadcast() // the splitter of b may wait in another
	}
}
