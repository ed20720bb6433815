package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
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

// endpoint returns the first endpoint in the URL, the environment or the
// profile.
func (l *location) findEndpoint(p profile, env remote.Env) (*url.URL, error) {
	configured := []string{env.Getenv("AWS_ENDPOINT_URL_S3"), env.Getenv("AWS_ENDPOINT_URL"), p.s3, p.values["endpoint_url"]}
	if isTrue(env.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) || isTrue(p.values["ignore_configured_endpoint_urls"]) {
		configured = nil
	}
	return parseEndpoint(firstOf(append(append([]string{l.endpoint}, configured...), awsEndpoint)...))
}

// findRegion returns the first region. An endpoint with a region in its name
// comes before all others.
func (l *location) findRegion(endpoint *url.URL, p profile, env remote.Env) (string, error) {
	region := firstOf(l.region, s3utils.GetRegionFromURL(*endpoint),
		env.Getenv("AWS_REGION"), env.Getenv("AWS_DEFAULT_REGION"), p.values["region"], defaultRegion)
	if !isRegion(region) {
		return "", fmt.Errorf("%q is not the name of a region", region)
	}
	return region, nil
}

// firstOf returns the first string that is not empty.
func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func isTrue(s string) bool { return strings.EqualFold(s, "true") }
