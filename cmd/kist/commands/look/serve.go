package look

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/web"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// defaultListen is the address of a server without --listen.
const defaultListen = "127.0.0.1:8460"

type serveOptions struct {
	listen        string
	write         bool
	cert, key     string
	users, groups string
	proxies       []string
	userHeader    string
	groupsHeader  string
	hosts         []string
	owners        []string
	rate          int
	maxBody       string
	hash          string
	quiet         time.Duration
}

func NewServe(env *cli.Env) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [OPTIONS]",
		Short: "serve the repository over HTTP",
		Long: `Serves the repository over HTTP until it is interrupted, and prints the URL:
/files/ has raw files and folders, of HEAD or of ?rev=REV, and /api/openapi.json
describes the API. /metrics is for Prometheus. The server reads only, except
with --write. New commits are seen at once.

By default, only this machine can connect, and on Linux only you and root. To
listen elsewhere, the server needs users, and TLS or a reverse proxy. The users
come from a FILE with lines NAME:HASH, hashed with bcrypt as 'htpasswd -B' and
'kist serve --hash' do it, or from a header of the proxy. It reads FILEs again
after a change.

WebDAV clients find branches, tags and commits below dav/. With --write, they
can change branches. Each change is on disk at once. It becomes part of a commit
after a quiet time, and at the end of the server.

The attributes acl, acl.read and acl.write of files and folders decide who may
read and write them: see 'kist help attr'. Names of branches and messages of
commits are visible to every user.

In a lazy clone, or after 'kist evict', kist serve answers 503 for content that
only a remote has: strangers could cause costs. 'kist config serve.fetch true'
lets it fetch.`,
		Example: `  kist serve
  kist serve --hash anna >>users
  kist serve --listen :8443 --tls-cert c.pem --tls-key k.pem --users users
  kist serve --listen unix:/run/kist/socket --user-header Remote-User`,
		Args: cli.NoArguments,
	}
	env.Prints(cmd, "when it serves", servedJSON{})
	env.InRepository(cmd, o.run)
	inRepository := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.hash != "" {
			return printHash(env, o.hash)
		}
		return inRepository(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", defaultListen, "listen at `ADDR:PORT` (port 0 is a free one) or unix:PATH")
	flags.BoolVar(&o.write, "write", false, "let users change the repository")
	flags.StringVar(&o.users, "users", "", "users log in with the names and passwords in `FILE`")
	flags.StringVar(&o.groups, "groups", "", "users are in the groups in `FILE`, lines as in 'crew: anna bob'")
	flags.StringVar(&o.hash, "hash", "", "read a password, and print the line of the user `NAME` for --users")
	flags.StringVar(&o.cert, "tls-cert", "", "use TLS, with the certificate in `FILE`")
	flags.StringVar(&o.key, "tls-key", "", "the key of the certificate, in `FILE`")
	flags.StringSliceVar(&o.proxies, "proxy", nil, "there is a reverse proxy at `ADDR`, or in a network as in 10.0.0.0/8")
	flags.StringVar(&o.userHeader, "user-header", "", "the proxy names the user in the header `NAME`")
	flags.StringVar(&o.groupsHeader, "groups-header", "", "the proxy names groups of the user in the header `NAME`")
	flags.StringSliceVar(&o.owners, "owner", nil, "the user `NAME` is the owner: no rule binds them, and they end locks of others")
	flags.StringSliceVar(&o.hosts, "host", nil, "answer requests for the host `NAME`, beside localhost; * is any")
	flags.IntVar(&o.rate, "rate", 0, "answer `N` requests a second of a client; default 100 with users, or all")
	flags.DurationVar(&o.quiet, "commit-after", pending.DefaultQuiet, "commit changes after `DURATION` without another")
	flags.StringVar(&o.maxBody, "max-upload", "16GiB", "refuse uploads larger than `SIZE`")
	return cmd
}

// servedJSON is the result of serve with --json.
type servedJSON struct {
	URL string `json:"url" doc:"the URL of the server"`
}

func (o *serveOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
	so, err := o.settings(env)
	if err != nil {
		return err
	}
	if fetch, _ := r.Config().Get(kist.KeyServeFetch); fetch != "true" {
		registry.RefuseFetches(r)
	}
	server := serve.New(r, so)
	if err := server.Site().Guard.Err(); err != nil && so.HasUsers() {
		return err
	}
	pages, err := web.New(ctx, server.Site(), web.Options{
		Now: env.Now, Jobs: max(2, runtime.GOMAXPROCS(0)), Log: func(err error) { so.Log(err.Error()) },
	})
	if err != nil {
		return err
	}
	server.Handle("/", web.Budget, pages)
	stop, err := o.plugDAV(ctx, env, r, server, &so)
	if err != nil {
		return err
	}
	defer stop()

	l, url, err := o.openAddress(env, &so)
	if err != nil {
		return err
	}
	env.PrintOrJSON(servedJSON{url}, "serving %s at %s\n", cli.QuotePath(r.Home()), url)
	if err := env.Stdout.(*cli.Results).Flush(); err != nil {
		l.Close()
		return err
	}
	return server.Serve(ctx, l)
}

// settings returns the options of the server.
func (o *serveOptions) settings(env *cli.Env) (so serve.Options, err error) {
	so = serve.Options{Write: o.write, Hosts: o.hosts, Owners: o.owners, Rate: o.rate, Log: func(text string) { env.Warn("%s", text) }}
	if env.Global.Verbose {
		so.Requests = func(text string) { env.Verbose("%s", cli.Printable(text)) }
	}
	size, err := kist.ParseSize(o.maxBody)
	if err != nil || size>>63 != 0 {
		return so, cli.Usagef("--max-upload %s is not a size", cli.QuoteArg(o.maxBody))
	}
	so.MaxBody = int64(size)
	if (o.cert == "") != (o.key == "") {
		return so, cli.Usagef("--tls-cert and --tls-key go together")
	}
	if o.cert != "" {
		if so.TLS, err = tlsConfig(env.Path(o.cert), env.Path(o.key)); err != nil {
			return so, err
		}
	}

	so.Proxy.UserHeader, so.Proxy.GroupsHeader = o.userHeader, o.groupsHeader
	for _, text := range o.proxies {
		prefix, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); aerr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return so, cli.Usagef("--proxy %s is no address or network", cli.QuoteArg(text))
		}
		so.Proxy.From = append(so.Proxy.From, prefix)
	}
	if o.users != "" && o.userHeader != "" {
		return so, cli.Usagef("--users and --user-header do not go together")
	}
	if o.users != "" || o.groups != "" {
		optional := func(path string) string {
			if path == "" {
				return ""
			}
			return env.Path(path)
		}
		if so.Users, err = serve.OpenUsers(optional(o.users), optional(o.groups)); err != nil {
			return so, err
		}
	}
	if len(o.owners) > 0 && !so.HasUsers() {
		return so, cli.Usagef("--owner names a user, but there are none: --users FILE has them")
	}
	if so.Rate == 0 && so.HasUsers() {
		so.Rate = 100
	}
	return so, o.checkSafe(&so)
}

// checkSafe returns an error if others could read the repository or a password.
func (o *serveOptions) checkSafe(so *serve.Options) error {
	socket, isSocket := strings.CutPrefix(o.listen, "unix:")
	switch {
	case isSocket && socket == "":
		return cli.Usagef("--listen unix: needs a path")
	case isSocket:
		return nil
	case o.userHeader != "" && len(so.Proxy.From) == 0:
		return cli.Hintf(cli.Usagef("--user-header needs --proxy"), "anybody could set the header; --proxy ADDR names who may")
	}
	host, port, err := net.SplitHostPort(o.listen)
	if n, numErr := strconv.ParseUint(port, 10, 64); err == nil && numErr == nil && n > 65535 {
		return cli.Usagef("--listen %s has a port above 65535", cli.QuoteArg(o.listen))
	}
	if err != nil {
		return cli.Hintf(cli.Usagef("--listen %s is not ADDR:PORT", cli.QuoteArg(o.listen)), "such as %s, or :8460 for all addresses", defaultListen)
	}
	if addr, err := netip.ParseAddr(host); host == "localhost" || err == nil && addr.IsLoopback() {
		return nil
	}
	switch {
	case !so.HasUsers():
		return cli.Hintf(cli.Usagef("--listen %s lets others connect, but there are no users", cli.QuoteArg(o.listen)), "--users FILE has users with passwords: see 'kist help serve'")
	case so.TLS == nil && len(so.Proxy.From) == 0:
		return cli.Hintf(cli.Usagef("--listen %s would send passwords and content in clear text", cli.QuoteArg(o.listen)),
			"--tls-cert and --tls-key turn on TLS; --proxy ADDR names a reverse proxy that has TLS")
	}
	return nil
}

// openAddress opens the address to listen at, and returns it with the URL of the server.
func (o *serveOptions) openAddress(env *cli.Env, so *serve.Options) (net.Listener, string, error) {
	if path, ok := strings.CutPrefix(o.listen, "unix:"); ok {
		path = env.Path(path)
		mode := os.FileMode(0o600)
		if so.HasUsers() {
			mode = 0o660 // the group has the proxy
		}
		l, err := listenUnix(path, mode)
		return l, "unix:" + path, err
	}
	l, err := net.Listen("tcp", o.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, "", cli.Hintf(cli.Failf(cli.ExitFailed, "in-use", "%s is in use", o.listen), "--listen 127.0.0.1:0 chooses a free port")
	}
	if err != nil {
		return nil, "", err
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && (!so.HasUsers() || so.TLS == nil && len(so.Proxy.From) == 0) {
		l.Close() // a name such as localhost can mean anything
		return nil, "", cli.Usagef("--listen %s is not on the loopback interface", cli.QuoteArg(o.listen))
	}
	scheme := "http"
	if so.TLS != nil {
		scheme = "https"
	}
	return l, scheme + "://" + l.Addr().String() + "/", nil
}

// listenUnix listens at a Unix socket with a mode. It replaces the socket of a server that
// died.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, cli.Failf(cli.ExitFailed, "in-use", "%s is in use", cli.QuotePath(path))
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(path)
		}
	}
	old := syscall.Umask(0o777 &^ int(mode))
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	return l, err
}

// tlsConfig returns a configuration with a certificate that is read again after a change.
func tlsConfig(certFile, keyFile string) (*tls.Config, error) {
	var mu sync.Mutex
	var cert *tls.Certificate
	var read fs.FileInfo
	load := func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		info, err := os.Stat(certFile)
		if err == nil && (read == nil || !info.ModTime().Equal(read.ModTime())) {
			var fresh tls.Certificate
			if fresh, err = tls.LoadX509KeyPair(certFile, keyFile); err == nil {
				cert, read = &fresh, info
			}
		}
		if cert != nil {
			return cert, nil // a faulty renewal does not stop the server
		}
		return nil, err
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
	}, nil
}

// printHash reads a password and prints the line of a user for --users.
func printHash(env *cli.Env, name string) error {
	password, err := cli.ReadSecret(env, "password of "+cli.QuoteArg(name)+": ")
	if err != nil {
		return err
	}
	line, err := serve.UserLine(name, password)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	env.Printf("%s\n", line)
	return nil
}
