package sftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"github.com/kist-vcs/kist/remote"
)

const (
	// fewConns is the most connections without a wish of the user.
	fewConns = 4

	// inFlight is the most requests of a file that wait for their answers: as many bytes as OpenSSH takes at once.
	inFlight = 64

	// worth is the number of bytes that calls ask each connection to move, on average, before another one is worth its start. A start
	// takes some ten round trips, and the processor time of some ten MiB.
	worth = 64 << 20

	// patience is the time that a call gets to end by itself after its context has ended. Then its connection is
	// closed, which ends all calls that use it.
	patience = 2 * time.Second
)

// Extensions of SFTP by OpenSSH.
const (
	extHardlink    = "hardlink@openssh.com"
	extFsync       = "fsync@openssh.com"
	extPosixRename = "posix-rename@openssh.com"
	extStatvfs     = "statvfs@openssh.com"
)

var errClosed = errors.New("the store was closed")

// conn is a connection. Any number of calls use it at once.
type conn struct {
	*sftp.Client
	link   link
	active int // calls; its pool's mu guards it
}

func (c *conn) has(extension string) bool {
	_, ok := c.HasExtension(extension)
	return ok
}

// pool has the connections of a backend. It opens them one after the other, because ssh may have to ask the user something. Only the
// first call waits for a connection. If much data moves, others are opened beside the calls.
type pool struct {
	dial  dialer
	worth int64

	mu      sync.Mutex
	most    int // connections
	conns   []*conn
	moved   int64    // bytes that calls asked for since a connection was opened first
	opening *attempt // under way, or nil
	closed  bool
	ends    sync.WaitGroup // goroutines that open a connection or wait for its end
}

// attempt is the opening of a connection. After done is closed, err is its error.
type attempt struct {
	done chan struct{}
	err  error
	stop context.CancelFunc
}

// takeConn returns a connection with another call on it, which moves size bytes. The caller gives it back by release.
func (p *pool) takeConn(ctx context.Context, size int64) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return nil, errClosed
		}
		if len(p.conns) > 0 {
			best := slices.MinFunc(p.conns, func(a, b *conn) int { return cmp.Compare(a.active, b.active) })
			p.moved += size
			if best.active > 0 && len(p.conns) < p.most && p.moved >= p.worth*int64(len(p.conns)) && p.opening == nil {
				p.openBeside(ctx)
			}
			best.active++
			return best, nil
		}
		if p.opening == nil {
			c, err := p.open(p.beginOpening(ctx))
			if err == nil {
				c.active++
				p.moved += size
			}
			return c, err
		}

		a := p.opening
		p.mu.Unlock()
		var err error
		select {
		case <-a.done:
			err = a.err
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil && (ctx.Err() != nil || !isEnded(err)) {
			return nil, err
		}
	}
}

// isEnded reports whether an error is that of a context.
func isEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// beginOpening notes that a connection is being opened, and returns the context for it. The caller holds p.mu.
func (p *pool) beginOpening(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	p.opening = &attempt{done: make(chan struct{}), stop: stop}
	return ctx
}

// openBeside opens another connection while calls use the open ones. If it fails, the server permits no more. The
// caller holds p.mu.
func (p *pool) openBeside(ctx context.Context) {
	ctx = p.beginOpening(context.WithoutCancel(ctx)) // later calls use it, too
	p.ends.Go(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, err := p.open(ctx); err != nil {
			p.most = max(1, len(p.conns))
		}
	})
}

// open opens a connection. The caller has called p.beginOpening and holds p.mu, which open leaves meanwhile.
func (p *pool) open(ctx context.Context) (*conn, error) {
	a := p.opening
	defer a.stop()
	p.mu.Unlock()
	c, err := connect(ctx, p.dial)
	p.mu.Lock()
	if p.closed {
		if err == nil {
			leave(c.link)
		}
		err = errClosed
	}
	a.err = err
	p.opening = nil
	close(a.done)
	if err != nil {
		return nil, err
	}
	p.conns = append(p.conns, c)
	p.ends.Go(func() {
		_ = c.Client.Wait() // the calls under way get its error
		p.drop(c)
		leave(c.link)
	})
	return c, nil
}

// connect opens a link and begins to speak SFTP.
func connect(ctx context.Context, dial dialer) (*conn, error) {
	l, err := dial(ctx)
	if err != nil {
		return nil, &callError{nil, err}
	}
	stop := context.AfterFunc(ctx, l.End)
	client, err := sftp.NewClientPipe(l, l, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(inFlight))
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		leave(l)
		if ctx.Err() == nil {
			err = explainStart(l.Wait(), err)
		}
		return nil, err
	}
	return &conn{Client: client, link: l}, nil
}

// drop takes a connection out of the pool.
func (p *pool) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(other *conn) bool { return other == c })
}

func (p *pool) release(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.active--
}

// close ends all connections.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.opening != nil {
		p.opening.stop()
	}
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, c := range conns {
		c.link.Close() // not the client's Close: it waits for a write that is stuck
		time.AfterFunc(ending, c.link.End)
	}
	p.ends.Wait()
}

// call makes a call that moves size bytes over a connection. Its error is one of package remote. After ctx has ended, f gets a moment
// to end. Then all calls over its connection fail.
func (b *Backend) call(ctx context.Context, op, name string, size int64, f func(ctx context.Context, c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return &remote.Error{Op: op, Name: name, Err: err}
	}
	c, err := b.pool.takeConn(ctx, size)
	if err != nil {
		return convert(ctx, op, name, err)
	}
	defer b.pool.release(c)

	done := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		timer := time.NewTimer(b.patience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			b.pool.drop(c)
			c.link.End()
		}
	})()
	err = f(ctx, c)
	close(done)

	if err != nil && isLost(err) && ctx.Err() == nil {
		err = explainLoss(c.link)
	}
	return convert(ctx, op, name, err)
}

// explainLoss returns the error for a connection that broke.
func explainLoss(l link) error {
	leave(l)
	if reason := l.Wait(); reason != nil {
		return &callError{remote.ErrTemporary, fmt.Errorf("the connection was lost: %w", reason)}
	}
	return &callError{remote.ErrTemporary, errors.New("the connection was lost")}
}
