// Package sftp is a remote in a folder of another machine, which a server of SSH
// shows by SFTP. The user's own ssh makes the connections. So its configuration,
// keys, agents and known hosts count, and kist sees no password.
//
// The folder has the layout of package remote/dir, and both can use it at the same
// time. A blob is a file. It is written in the folder tmp, synced, and then linked
// to its name, because a link is made at most once. fsync@openssh.com and
// hardlink@openssh.com do that. [Backend.Doubt] says what the server lacks.
//
// The server resolves paths, so it follows symbolic links on the way to a file.
package sftp

import (
	"context"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// Backend is a folder on a server as a [remote.Backend].
type Backend struct {
	pool     pool
	root     string // as the server knows it
	patience time.Duration

	found      atomic.Bool // the folder exists
	identified atomic.Bool // it was a remote before this process wrote to it
	own        atomic.Bool // it is a remote, or was empty
	durable    sync.Map    // folders, relative to root, whose own names this process knows to be on disk

	mover mover
}

// Open returns the store of a URL: ssh://user@host:port/path, or the same with sftp://. A path that begins with
// /~/ is relative to the user's home folder there. env.SSH is the program that connects, and env.Jobs bounds the
// connections. Open makes no connection, so it does not notice a missing folder. If only the parent
// folder exists, the first write makes the folder.
func Open(ctx context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	if err := ctx.Err(); err != nil {
		return nil, &remote.Error{Op: "open", Err: err}
	}
	l, err := parseLocation(rawURL)
	if err != nil {
		return nil, badURL(rawURL, err)
	}
	return newBackend(startSSH(env.SSH, l), l.path, env.Jobs), nil
}

// newBackend returns the store in a folder. Jobs is the most connections, or 0.
func newBackend(dial dialer, root string, jobs int) *Backend {
	if jobs <= 0 {
		jobs = fewConns
	}
	return &Backend{pool: pool{dial: dial, worth: worth, most: jobs}, root: root, patience: patience}
}

// Close implements [remote.Backend]. When it returns, no program of the store runs.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}

// at returns the server's path of a blob or folder, "" for the root.
func (b *Backend) at(name string) string { return path.Join(b.root, name) }

// folderOf returns the folder of a blob, "" for the root.
func folderOf(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}
