package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/kist-vcs/kist/remote"
)

// Time limits for a service that gives out credentials. Such a service in a
// cloud answers at once. Elsewhere there is none.
const (
	metadataTimeout = 2 * time.Second
	serviceTimeout  = 15 * time.Second
)

// source provides credentials from the first place that has any, in the order
// of AWS's tools.
type source struct {
	credentials.Provider
	client  *http.Client     // for requests to services; nil: use no services
	what    string           // the place they come from, for errors
	profile *profileProvider // the provider, if it is a profile; otherwise nil

	renewing sync.Mutex // held while credentials are renewed
	last     time.Time  // of the last renewal; guarded by renewing

	mu     sync.Mutex
	secret []string // texts that must not be shown
}

// credentialsError is the error of a source.
type credentialsError struct {
	what string
	err  error
}

func (e *credentialsError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }
func (e *credentialsError) Unwrap() error { return e.err }

// findSource finds the source of credentials for a location. It makes no
// request to a service yet.
func findSource(l location, p profile, region string, env remote.Env) (*source, error) {
	id, secret := env.Getenv("AWS_ACCESS_KEY_ID"), env.Getenv("AWS_SECRET_ACCESS_KEY")
	switch {
	case l.anonymous:
		return fixed("", "", ""), nil
	case l.profile != "":
		s, err := profileSource(l, p, region, env)
		if s == nil && err == nil {
			err = fmt.Errorf("profile %q has no credentials", p.name)
		}
		return s, err
	case id != "" && secret != "":
		return fixed(id, secret, env.Getenv("AWS_SESSION_TOKEN")), nil
	case id != "":
		return nil, &remote.EnvError{Variable: "AWS_SECRET_ACCESS_KEY", Reason: "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not"}
	case secret != "":
		return nil, &remote.EnvError{Variable: "AWS_ACCESS_KEY_ID", Reason: "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not"}
	}
	if s, err := profileSource(l, p, region, env); s != nil || err != nil {
		return s, err
	}

	return roleSource(region, env)
}

func fixed(id, secret, token string) *source {
	return &source{what: "credentials", Provider: &credentials.Static{Value: credentials.Value{
		AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, SignerType: credentials.SignatureV4,
	}}}
}

// roleSource returns the credentials that a machine, container or pod has by
// its role.
func roleSource(region string, env remote.Env) (*source, error) {
	if file, role := env.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), env.Getenv("AWS_ROLE_ARN"); file != "" && role != "" {
		provider := identity(file, role, env.Getenv("AWS_ROLE_SESSION_NAME"), region)
		return &source{what: "web identity of role " + role, client: client(serviceTimeout), Provider: provider}, nil
	}

	iam := &credentials.IAM{Region: region}
	iam.Container.CredentialsRelativeURI = env.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
	iam.Container.CredentialsFullURI = env.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if iam.Container.CredentialsRelativeURI == "" && iam.Container.CredentialsFullURI == "" {
		if isTrue(env.Getenv("AWS_EC2_METADATA_DISABLED")) {
			return nil, errors.New("no credentials found: neither AWS_ACCESS_KEY_ID nor a profile has any")
		}
		iam.Endpoint = env.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
	}

	return &source{
		what:     "no credentials found: neither AWS_ACCESS_KEY_ID nor a profile has any, nor this machine by its role",
		client:   client(metadataTimeout),
		Provider: iam,
	}, nil
}

// identity returns the provider of a role that a token file proves.
func identity(file, role, session, region string) credentials.Provider {
	iam := &credentials.IAM{Region: region}
	iam.EKSIdentity.TokenFile, iam.EKSIdentity.RoleARN, iam.EKSIdentity.RoleSessionName = file, role, session
	return iam
}

// client returns a client that uses no proxy and follows no redirect: its requests have tokens.
func client(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			DialContext:       (&net.Dialer{Timeout: limit}).DialContext,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RetrieveWithCredContext returns the credentials. minio-go calls it if it has
// none or if they are about to expire.
func (s *source) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	own := credentials.CredContext{Client: s.client}
	if cc != nil {
		own.Endpoint, own.Context = cc.Endpoint, cc.Context
	}

	value, err := s.Provider.RetrieveWithCredContext(&own)
	if err != nil {
		return value, &credentialsError{s.what, err}
	}
	if s.client != nil && (value.AccessKeyID == "" || value.SecretAccessKey == "") {
		return value, &credentialsError{s.what, errors.New("the answer has none")}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range []string{value.SecretAccessKey, value.SessionToken, value.AccessKeyID} {
		if secret != "" {
			s.secret = append(s.secret, secret, "***")
		}
	}

	return value, nil
}

// Retrieve is RetrieveWithCredContext without a context.
func (s *source) Retrieve() (credentials.Value, error) {
	return s.RetrieveWithCredContext(&credentials.CredContext{Context: context.Background()})
}

// renewPause is the time after which the store's refusal leads to other credentials again. A program
// that provides them may take long.
const renewPause = 10 * time.Second

// renewCredentials reports whether there are other credentials than used, which a request had that failed
// with err. It retrieves them if the store says that they have expired, and if a file of the
// profile has changed since. Only one request at a time does so.
func (b *Backend) renewCredentials(ctx context.Context, used credentials.Value, err error) bool {
	resp, s := minio.ToErrorResponse(err), b.source
	expired := errors.Is(kindOf("", resp), remote.ErrCredentials) && resp.Code != codeClock
	denied := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusBadRequest // a HEAD has no code
	if !expired && !denied {
		return false
	}

	s.renewing.Lock()
	defer s.renewing.Unlock()
	cc := &credentials.CredContext{Context: ctx}
	if now, err := b.creds.GetWithContext(cc); err != nil || areDifferent(now, used) {
		return err == nil
	}
	changed := s.profile != nil && s.profile.isChanged()
	if !changed && (!expired || b.now().Sub(s.last) < renewPause) {
		return false
	}

	s.last = b.now()
	b.creds.Expire()
	now, err := b.creds.GetWithContext(cc)
	return err == nil && areDifferent(now, used)
}

// areDifferent compares credentials.
func areDifferent(a, b credentials.Value) bool {
	return a.AccessKeyID != b.AccessKeyID || a.SecretAccessKey != b.SecretAccessKey || a.SessionToken != b.SessionToken
}

// redactSecrets replaces credentials in a text that comes from elsewhere.
func (s *source) redactSecrets(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.NewReplacer(s.secret...).Replace(text)
}

func isTrue(s string) bool { return strings.EqualFold(s, "true") }
