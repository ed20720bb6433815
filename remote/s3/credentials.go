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
	client *http.Client // for requests to services; nil: use no services
	what   string       // the place they come from, for errors

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
		s, err := p.source(region)
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
	if s, err := p.source(region); s != nil || err != nil {
		return s, err
	}

	return roleSource(region, env)
}

func fixed(id, secret, token string) *source {
	return &source{what: "credentials", Provider: &credentials.Static{Value: credentials.Value{
		AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, SignerType: credentials.SignatureV4,
	}}}
}

// source returns the credentials of a profile, or nil.
func (p profile) source(region string) (*source, error) {
	id, secret := p.values["aws_access_key_id"], p.values["aws_secret_access_key"]
	what := fmt.Sprintf("profile %q", p.name)
	switch {
	case id != "" && secret != "":
		return fixed(id, secret, p.values["aws_session_token"]), nil
	case id != "" || secret != "":
		return nil, fmt.Errorf("%s has only one of aws_access_key_id and aws_secret_access_key", what)
	case p.values["role_arn"] != "" && p.values["web_identity_token_file"] != "":
		return identitySource(p.values["web_identity_token_file"], p.values["role_arn"], p.values["role_session_name"], region), nil
	case p.values["role_arn"] != "":
		return nil, fmt.Errorf("%s assumes a role, which kist cannot do by itself; give it the line \"credential_process = aws configure export-credentials --profile OTHER\"", what)
	}

	for _, key := range []string{"sso_role_name", "credential_process"} {
		if p.values[key] != "" {
			return &source{what: what, client: client(serviceTimeout), Provider: &credentials.FileAWSCredentials{Filename: p.from[key], Profile: p.name}}, nil
		}
	}

	return nil, nil
}

// roleSource returns the credentials that a machine, container or pod has by
// its role.
func roleSource(region string, env remote.Env) (*source, error) {
	if file, role := env.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), env.Getenv("AWS_ROLE_ARN"); file != "" && role != "" {
		return identitySource(file, role, env.Getenv("AWS_ROLE_SESSION_NAME"), region), nil
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

func identitySource(file, role, session, region string) *source {
	iam := &credentials.IAM{Region: region}
	iam.EKSIdentity.TokenFile, iam.EKSIdentity.RoleARN, iam.EKSIdentity.RoleSessionName = file, role, session
	return &source{what: "web identity of role " + role, client: client(serviceTimeout), Provider: iam}
}

// client returns a client that uses no proxy.
func client(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: &http.Transport{
		DialContext:       (&net.Dialer{Timeout: limit}).DialContext,
		DisableKeepAlives: true,
	}}
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

// redact replaces credentials in a text that comes from elsewhere.
func (s *source) redact(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.NewReplacer(s.secret...).Replace(text)
}
