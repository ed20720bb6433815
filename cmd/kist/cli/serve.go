package cli

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/serve"
)

type serveOptions struct {
	listen string
	write  bool
}

func newServe(env *Env) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [OPTIONS]",
		Short: "serve the repository over HTTP",
		Long: `Serves the repository over HTTP until it is interrupted, and prints the URL. The
server reads only, except with --write.

With --json: url.`,
		Example: `  kist serve`,
		Args:    noArguments,
	}
	env.inRepository(cmd, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8460", "listen at `ADDR:PORT`; port 0 is a free one")
	flags.BoolVar(&o.write, "write", false, "let users change the repository")
	return cmd
}

// servedJSON is the result of serve with --json.
type servedJSON struct {
	URL string `json:"url"`
}

func (o *serveOptions) run(ctx context.Context, env *Env, r *kist.Repository, _ []string) error {
	server := serve.New(r, serve.Options{Write: o.write, Log: func(text string) { env.warn("%s", text) }})
	// Handlers of other packages are plugged in here, as in
	// server.Handle("/dav/", dav.New(server.Site())).

	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String() + "/"
	env.show(servedJSON{url}, "serving %s at %s\n", quotePath(r.Home()), url)
	if err := env.Stdout.(*results).Flush(); err != nil {
		l.Close()
		return err
	}
	return server.Serve(ctx, l)
}
