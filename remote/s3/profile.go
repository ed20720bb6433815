package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"

	"github.com/kist-vcs/kist/remote"
)

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
	files  [2]fileState
}

// fileState changes when a file changes.
type fileState struct {
	path string
	time time.Time
	size int64
}

// stateOf returns the state of a file. A missing one has the zero time.
func stateOf(path string) fileState {
	s := fileState{path: path}
	if info, err := os.Stat(path); err == nil {
		s.time, s.size = info.ModTime(), info.Size()
	}
	return s
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

	configPath, secretPath := findINI(env, "AWS_CONFIG_FILE", "config"), findINI(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials")
	p.files = [2]fileState{stateOf(configPath), stateOf(secretPath)}
	config, err := readINI(configPath)
	if err != nil {
		return p, err
	}
	secret, err := readINI(secretPath)
	if err != nil {
		return p, err
	}

	found := p.name == "default" && p.addSection(config, "default", configPath)
	found = p.addSection(config, "profile "+p.name, configPath) || found
	found = p.addSection(secret, p.name, secretPath) || found
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

// addSection adds the values of a section and reports whether it exists.
func (p *profile) addSection(file *ini.File, section, path string) bool {
	if !file.HasSection(section) {
		return false
	}
	for _, key := range file.Section(section).Keys() {
		p.values[key.Name()] = key.Value()
		p.from[key.Name()] = path
	}
	return true
}

// findINI returns the path of the file that a variable names, or of a default file in the
// user's home folder.
func findINI(env remote.Env, variable, base string) string {
	path := env.Getenv(variable)
	switch rest, ok := strings.CutPrefix(path, "~/"); {
	case path == "" && env.Home == "":
		return ""
	case path == "":
		return filepath.Join(env.Home, ".aws", base)
	case ok && env.Home != "":
		return filepath.Join(env.Home, rest)
	}
	return path
}

// readINI reads a file. A missing one is empty.
func readINI(path string) (*ini.File, error) {
	if path == "" {
		return ini.Empty(), nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ini.Empty(), nil
	}
	if err != nil {
		return nil, err
	}

	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreContinuation:      true,
		AllowNestedValues:       true,
		SkipUnrecognizableLines: true,
	}, data)
	if err != nil { // the text of err has lines of the file, which may be secret
		return nil, fmt.Errorf("%s cannot be parsed", path)
	}

	return file, nil
}

// provider returns the credentials of the profile, or nil.
func (p *profile) provider(region string, now func() time.Time) (credentials.Provider, error) {
	id, secret := p.values["aws_access_key_id"], p.values["aws_secret_access_key"]
	what := fmt.Sprintf("profile %q", p.name)
	switch {
	case id != "" && secret != "":
		return fixed(id, secret, p.values["aws_session_token"]).Provider, nil
	case id != "" || secret != "":
		return nil, fmt.Errorf("%s has only one of aws_access_key_id and aws_secret_access_key", what)
	case p.values["role_arn"] != "" && p.values["web_identity_token_file"] != "":
		return identity(p.values["web_identity_token_file"], p.values["role_arn"], p.values["role_session_name"], region), nil
	case p.values["role_arn"] != "":
		return nil, fmt.Errorf("%s assumes a role, which kist cannot do by itself; give it the line \"credential_process = aws configure export-credentials --profile OTHER\"", what)
	case p.values["sso_role_name"] != "":
		return &credentials.FileAWSCredentials{Filename: p.from["sso_role_name"], Profile: p.name}, nil
	case p.values["credential_process"] != "":
		command, err := remote.SplitWords(p.values["credential_process"])
		if err != nil || len(command) == 0 {
			return nil, fmt.Errorf("%s has a credential_process that is no command: %v", what, err)
		}
		return &process{command: command, Expiry: credentials.Expiry{CurrentTime: now}}, nil
	}

	return nil, nil
}

// profileProvider provides the credentials of a profile. It reads the files again for each
// retrieval after the first, because another program may have renewed the profile.
type profileProvider struct {
	credentials.Provider // of the profile as it was read last; guarded by the lock of credentials.Credentials
	retrieved            bool

	mu      sync.Mutex // guards profile
	profile profile

	reread func() (profile, credentials.Provider, error)
}

// profileSource returns the credentials of the profile of a location, or nil.
func profileSource(l location, p profile, region string, env remote.Env) (*source, error) {
	provider, err := p.provider(region, env.Now)
	if provider == nil || err != nil {
		return nil, err
	}

	pp := &profileProvider{Provider: provider, profile: p}
	pp.reread = func() (profile, credentials.Provider, error) {
		p, err := readProfile(l.profile, env)
		if err != nil {
			return p, nil, err
		}
		provider, err := p.provider(region, env.Now)
		return p, provider, err
	}
	return &source{what: fmt.Sprintf("profile %q", p.name), client: client(serviceTimeout), Provider: pp, profile: pp}, nil
}

// RetrieveWithCredContext implements [credentials.Provider]. A profile that has no credentials any
// more, perhaps for a moment, keeps its former ones. The caller holds the lock of its
// [credentials.Credentials].
func (p *profileProvider) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	if p.retrieved {
		if fresh, provider, err := p.reread(); err == nil && provider != nil {
			p.Provider = provider
			p.mu.Lock()
			p.profile = fresh
			p.mu.Unlock()
		}
	}
	p.retrieved = true
	return p.Provider.RetrieveWithCredContext(cc)
}

// isChanged reports whether a file of the profile is not as it was when it was read.
func (p *profileProvider) isChanged() bool {
	p.mu.Lock()
	files := p.profile.files
	p.mu.Unlock()
	return files != [2]fileState{stateOf(files[0].path), stateOf(files[1].path)}
}
