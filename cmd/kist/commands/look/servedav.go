package look

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/dav"
)

// plugDAV adds WebDAV to a server. The caller calls stop after the last request: it commits the
// changes that are pending.
func (o *serveOptions) plugDAV(ctx context.Context, env *cli.Env, r *kist.Repository, server *serve.Server, so *serve.Options) (stop func(), err error) {
	h, err := dav.New(ctx, r, dav.Options{Write: o.write, Quiet: o.quiet, MaxSize: so.MaxBody, Log: so.Log, Guard: server.Site().Guard})
	if err != nil {
		return nil, err
	}
	server.Handle(dav.Prefix+"/", dav.Budget, h)
	server.Handle("OPTIONS /{$}", dav.Budget, h) // Windows asks there first
	return func() {
		if err := h.Close(context.WithoutCancel(ctx)); err != nil {
			env.Warn("some changes wait for the next 'kist serve --write': %v", err)
		}
	}, nil
}
