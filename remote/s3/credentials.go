package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"

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

// redact replaces credentials in a text that comes from elsewhere.
func (s *source) redact(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.NewReplacer(s.secret...).Replace(text)
}

const (
	awsEndpoint   = "https://s3.amazonaws.com"
	defaultRegion = "us-east-1"
)

// profile is a named section of the files of AWS's tools, with settings and
// credentials.
type profile struct {
	name  string
	named bool // the user named it; otherwise it is the default and may be empty

	values map[string]string // values of both files; the credentials file wins
	from   map[string]string // the file that each value comes from
	s3     string            // the endpoint of its [services …] section for S3
}

// readProfile reads the profile that the URL or the environment names.
func readProfile(name string, env remote.Env) (profile, error) {
	p := profile{name: name, values: map[string]string{}, from: map[string]string{}}
	if p.name == "" {
		p.name = env.Getenv("AWS_PROFILE")
	}

	p.named = p.name != ""
	if !p.named {
		p.name = "default"
	}

	config, configPath, err := readINI(env, "AWS_CONFIG_FILE", "config")
	if err != nil {
		return p, err
	}

	secret, secretPath, err := readINI(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials")
	if err != nil {
		return p, err
	}

	found := p.name == "default" && p.add(config, "default", configPath)
	found = p.add(config, "profile "+p.name, configPath) || found
	found = p.add(secret, p.name, secretPath) || found
	if p.named && !found {
		return p, fmt.Errorf("profile %q is neither in %s nor in %s", p.name, secretPath, configPath)
	}
	if services := p.values["services"]; services != "" && config.HasSection("services "+services) {
		for _, line := range config.Section("services " + services).Key("s3").NestedValues() {
			if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "endpoint_url" {
				p.s3 = strings.TrimSpace(value)
			}
		}
	}

	return p, nil
}

// add adds the values of a section and reports whether it exists.
func (p *profile) add(file *ini.File, section, path string) bool {
	if !file.HasSection(section) {
		return false
	}
	for _, key := range file.Section(section).Keys() {
		p.values[key.Name()] = key.Value()
		p.from[key.Name()] = path
	}
	return true
}

// readINI reads the file that a variable names, or a default file in the
// user's home folder. A missing file is empty.
func readINI(env remote.Env, variable, base string) (*ini.File, string, error) {
	path := env.Getenv(variable)
	switch rest, ok := strings.CutPrefix(path, "~/"); {
	case path == "" && env.Home == "":
		return ini.Empty(), base, nil
	case path == "":
		path = filepath.Join(env.Home, ".aws", base)
	case ok && env.Home != "":
		path = filepath.Join(env.Home, rest)
	}

	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ini.Empty(), path, nil
	}
	if err != nil {
		return nil, path, err
	}

	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreContinuation:      true,
		AllowNestedValues:       true,
		SkipUnrecognizableLines: true,
	}, data)
	if err != nil { // the text of err has lines of the file, which may be secret
		return nil, path, fmt.Errorf("%s cannot be parsed", path)
	}

	return file, path, nil
}

func isTrue(s string) bool { return strings.EqualFold(s, "true") }
