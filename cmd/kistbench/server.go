package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// serverVariable is the environment variable with the s3:// URL of a bucket. Tests use it, too.
const serverVariable = "KIST_TEST_S3"

// errNoServer is the error of findServer without a server.
var errNoServer = errors.New(serverVariable + " is not set; bin/servers/run sets it")

// server is a bucket of an S3 server. A relay counts the traffic with a server without TLS.
type server struct {
	bucket string
	host   string // host and port for the tools
	secure bool
	relay  *relay // nil with TLS
	client *minio.Client
}

// findServer returns the server that the environment names.
func findServer() (*server, error) {
	at := os.Getenv(serverVariable)
	if at == "" {
		return nil, errNoServer
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serverVariable, err)
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil || endpoint.Host == "" {
		return nil, fmt.Errorf("%s has no endpoint=http://HOST", serverVariable)
	}
	s := &server{bucket: u.Host, host: endpoint.Host, secure: endpoint.Scheme == "https"}
	s.client, err = minio.New(s.host, &minio.Options{Creds: credentials.NewEnvAWS(), Secure: s.secure, Region: region()})
	if err != nil {
		return nil, err
	}
	if !s.secure {
		if s.relay, err = newRelay(s.host); err != nil {
			return nil, err
		}
		s.host = s.relay.Addr().String()
	}
	return s, nil
}

func (s *server) close() {
	if s.relay != nil {
		s.relay.Close()
	}
}

// region returns the region of the server.
func region() string {
	if region := os.Getenv("AWS_REGION"); region != "" {
		return region
	}
	return "us-east-1"
}

// prefix is the place of a repository on a server, or of a remote in a folder.
type prefix struct {
	*server            // nil: it is a folder
	name    string     // the folder; or on the server, without a slash at its ends
	ssh     *sshServer // the way to the folder, or nil
}

// beside returns a place for something else.
func (p *prefix) beside(suffix string) *prefix {
	return &prefix{p.server, p.name + suffix, p.ssh}
}

func (p *prefix) endpoint() string {
	if p.secure {
		return "https://" + p.host
	}
	return "http://" + p.host
}

func (p *prefix) kistURL() string {
	if p.ssh != nil {
		return "ssh://" + sshHost + p.name
	}
	if p.server == nil {
		return p.name
	}
	return fmt.Sprintf("s3://%s/%s?endpoint=%s", p.bucket, p.name, p.endpoint())
}

func (p *prefix) resticURL() string { return "s3:" + p.endpoint() + "/" + p.bucket + "/" + p.name }

// objects lists the objects below the prefix.
func (p *prefix) objects(ctx context.Context) <-chan minio.ObjectInfo {
	return p.client.ListObjects(ctx, p.bucket, minio.ListObjectsOptions{Prefix: strings.TrimSuffix(p.name, "/") + "/", Recursive: true})
}

// stored returns the sum of the sizes of the objects, or the blocks of the folder.
func (p *prefix) stored(ctx context.Context) (int64, error) {
	if p.server == nil {
		held, err := count(p.name)
		return held.disk, err
	}
	var total int64
	for o := range p.objects(ctx) {
		if o.Err != nil {
			return 0, o.Err
		}
		total += o.Size
	}
	return total, nil
}

// remove removes the folder or all objects.
func (p *prefix) remove(ctx context.Context) error {
	if p.server == nil {
		return os.RemoveAll(p.name)
	}
	for failed := range p.client.RemoveObjects(ctx, p.bucket, p.objects(ctx), minio.RemoveObjectsOptions{}) {
		if failed.Err != nil {
			return failed.Err
		}
	}
	return ctx.Err()
}
