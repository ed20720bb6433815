package s3

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

func TestURLsRefused(t *testing.T) {
	env := testEnv(t, map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
	for rawURL, text := range map[string]string{
		"s3://":                   "bucket",
		"s3:///prefix":            "bucket",
		"s3://ab":                 "bucket",
		"s3://bucket:443/x":       "bucket",
		"s3://Bucket Name/x":      "parsed",
		"s3://id:canary@bucket/x": "credentials in it",
		"s3://canary@bucket/x":    "credentials in it",
		"http://bucket/x":         "s3://",
		"s3://bucket/x#y":         "'#'",
		"s3://bucket/x#":          "'#'",
		"s3://bucket/a//b":        "prefix",
		"s3://bucket/../b":        "prefix",
		"s3://bucket/%00":         "no text",
		"s3://bucket/%ff":         "no text",
		"s3://bucket/" + strings.Repeat("x/", 500):     "limit",
		"s3://bucket?region=a&region=b":                "more than one",
		"s3://bucket?region=a.b":                       "region",
		"s3://bucket?region=":                          "region",
		"s3://bucket?path-style=perhaps":               "path-style",
		"s3://bucket?anonymous=perhaps":                "anonymous",
		"s3://bucket?conditional=perhaps":              "conditional",
		"s3://bucket?class=":                           "class",
		"s3://bucket?class=glacier":                    "capital letters",
		"s3://bucket?class=GLACIER%0aX":                "class",
		"s3://bucket?class=" + strings.Repeat("A", 65): "class",
		"s3://bucket?secret=canary":                    `"secret"`,
		"s3://bucket?%zz":                              "parsed",
		"s3://bucket?endpoint=ftp://x":                 "ftp",
		"s3://bucket?endpoint=http://x/y":              "host and a port",
		"s3://bucket?endpoint=http://":                 "host and a port",
		"s3://bucket?endpoint=http://a:canary@x":       "credentials",
		"s3://bucket?endpoint=http://%2500":            "parsed",
	} {
		_, err := Open(t.Context(), rawURL, env)
		if !errors.Is(err, remote.ErrURL) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want ErrURL with %q", rawURL, err, text)
		}
		if err != nil && strings.Contains(err.Error(), "canary") && strings.Contains(rawURL, ":canary") {
			t.Errorf("%s: the error shows the password: %v", rawURL, err)
		}
	}
}

// TestSettings checks the precedence of the URL, the environment and the profile
// for endpoint, region and credentials.
func TestSettings(t *testing.T) {
	const config = `
[default]
region = eu-west-1

[profile work]
region = eu-central-1
endpoint_url = https://s3.work.example
services = mine
s3 =
  addressing_style = path
  region = nested

[profile own]
services = mine
aws_access_key_id = OWN
aws_secret_access_key = own=secret/with+all # of these

[profile keyless]
region = ap-south-1
[profile half]
aws_access_key_id = HALF
[profile chained]
role_arn = arn:aws:iam::1:role/x
source_profile = work

[services mine]
s3 =
  endpoint_url = https://s3.services.example:8443
dynamodb =
  endpoint_url = https://dynamodb.example

what is this line
`
	const shared = `
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = default-secret
[work]
aws_access_key_id = WORK
aws_secret_access_key = work-secret
aws_session_token = work-token
`
	for _, test := range []struct {
		url      string
		settings string // NAME=value …
		want     string // endpoint region id secret token
		err      string
	}{
		{"s3://bucket", "", "https://s3.amazonaws.com eu-west-1 DEFAULT default-secret", ""},
		{"s3://bucket?region=x-1", "AWS_REGION=y-1", "https://s3.amazonaws.com x-1 DEFAULT default-secret", ""},
		{"s3://bucket", "AWS_REGION=y-1 AWS_DEFAULT_REGION=z-1", "https://s3.amazonaws.com y-1 DEFAULT default-secret", ""},
		{"s3://bucket", "AWS_DEFAULT_REGION=z-1", "https://s3.amazonaws.com z-1 DEFAULT default-secret", ""},
		{"s3://bucket?endpoint=https://s3.us-west-2.amazonaws.com", "AWS_REGION=y-1", "https://s3.us-west-2.amazonaws.com us-west-2 DEFAULT default-secret", ""},
		{"s3://bucket", "AWS_CONFIG_FILE=/none AWS_SHARED_CREDENTIALS_FILE=~/.aws/credentials", "https://s3.amazonaws.com us-east-1 DEFAULT default-secret", ""},
		{"s3://bucket", "AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=s AWS_SESSION_TOKEN=t", "https://s3.amazonaws.com eu-west-1 ENV s t", ""},
		{"s3://bucket", "AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=s AWS_PROFILE=work", "https://s3.services.example:8443 eu-central-1 ENV s", ""},
		{"s3://bucket", "AWS_PROFILE=work", "https://s3.services.example:8443 eu-central-1 WORK work-secret work-token", ""},
		{"s3://bucket?profile=own", "AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=s AWS_PROFILE=work", "https://s3.services.example:8443 us-east-1 OWN own=secret/with+all", ""},
		{"s3://bucket?profile=work", "AWS_ENDPOINT_URL=http://all.example", "http://all.example eu-central-1 WORK work-secret work-token", ""},
		{"s3://bucket?profile=work", "AWS_ENDPOINT_URL=http://all.example AWS_ENDPOINT_URL_S3=http://s3.example", "http://s3.example eu-central-1 WORK work-secret work-token", ""},
		{"s3://bucket?profile=work", "AWS_ENDPOINT_URL=http://all.example AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", "https://s3.amazonaws.com eu-central-1 WORK work-secret work-token", ""},
		{"s3://bucket?endpoint=localhost:9000", "", "http://localhost:9000 eu-west-1 DEFAULT default-secret", ""},
		{"s3://bucket?endpoint=[::1]:9000", "", "http://[::1]:9000 eu-west-1 DEFAULT default-secret", ""},
		{"s3://bucket?endpoint=minio.example/", "", "https://minio.example eu-west-1 DEFAULT default-secret", ""},
		{"s3://bucket?anonymous=true", "AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=s", "https://s3.amazonaws.com eu-west-1", ""},

		{"s3://bucket?profile=none", "", "", `profile "none" is neither in`},
		{"s3://bucket", "AWS_PROFILE=none", "", `profile "none" is neither in`},
		{"s3://bucket?profile=keyless", "AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=s", "", `profile "keyless" has no credentials`},
		{"s3://bucket?profile=half", "", "", "only one of"},
		{"s3://bucket?profile=chained", "", "", "credential_process"},
		{"s3://bucket", "AWS_ACCESS_KEY_ID=ENV", "", "AWS_SECRET_ACCESS_KEY is not"},
		{"s3://bucket", "AWS_PROFILE=keyless", "", "no credentials found"},
		{"s3://bucket", "AWS_REGION=a/b", "", "region"},
	} {
		settings := map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}
		for setting := range strings.FieldsSeq(test.settings) {
			name, value, _ := strings.Cut(setting, "=")
			settings[name] = value
		}
		env := testEnv(t, settings)
		writeFile(t, filepath.Join(env.Home, ".aws", "config"), config)
		writeFile(t, filepath.Join(env.Home, ".aws", "credentials"), shared)
		b, err := open(t.Context(), test.url, env, stallTimeout)
		if err != nil {
			if test.err == "" || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s with %s: error %v, want %q", test.url, test.settings, err, test.err)
			}
			continue
		}
		if got := b.found(t); got != test.want {
			t.Errorf("%s with %s: %s, want %s", test.url, test.settings, got, test.want)
		}
	}
}

// found returns endpoint, region and credentials of a backend.
func (b *Backend) found(t *testing.T) string {
	t.Helper()
	v, err := b.creds.GetWithContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.endpoint.String()+" "+b.client.Load().region+" "+v.AccessKeyID+" "+v.SecretAccessKey+" "+v.SessionToken), " ")
}

func writeFile(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Open fails if a file with settings is damaged or unreadable.
func TestFilesThatCannotBeRead(t *testing.T) {
	env := testEnv(t, nil)
	name := filepath.Join(env.Home, ".aws", "credentials")
	writeFile(t, name, "[default]\n= canary\n[unclosed canary\n")
	_, err := Open(t.Context(), "s3://bucket", env)
	if !errors.Is(err, remote.ErrCredentials) || !strings.Contains(err.Error(), "cannot be parsed") || strings.Contains(err.Error(), "canary") {
		t.Errorf("damaged file: error %v, want ErrCredentials with \"cannot be parsed\", without content", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "s3://bucket", env); !errors.Is(err, remote.ErrCredentials) {
		t.Errorf("folder instead of the file: error %v, want ErrCredentials", err)
	}
	env.Getenv = settings{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CA_BUNDLE": name}.get
	if _, err := Open(t.Context(), "s3://bucket", env); err == nil {
		t.Error("AWS_CA_BUNDLE names a folder: no error")
	}
}

// TestStyles checks the host and path of a bucket's requests.
func TestStyles(t *testing.T) {
	for rawURL, want := range map[string]string{
		"s3://bucket":                                  "https://bucket.s3.us-east-1.amazonaws.com/",
		"s3://bucket?region=eu-west-3":                 "https://bucket.s3.eu-west-3.amazonaws.com/",
		"s3://bucket?region=cn-north-1":                "https://bucket.s3.cn-north-1.amazonaws.com.cn/",
		"s3://bucket.with.dots":                        "https://s3.us-east-1.amazonaws.com/bucket.with.dots/",
		"s3://bucket?path-style=true":                  "https://s3.us-east-1.amazonaws.com/bucket/",
		"s3://bucket?endpoint=minio.example":           "https://minio.example/bucket/",
		"s3://bucket?endpoint=m.example&path-style=no": "",
		"s3://bucket?endpoint=m.example&path-style=0":  "https://bucket.m.example/",
	} {
		env := testEnv(t, map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
		b, err := open(t.Context(), rawURL, env, stallTimeout)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", rawURL, err)
			}
			continue
		}
		u, err := b.client.Load().PresignedGetObject(t.Context(), b.bucket, "x", time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "x"); got != want {
			t.Errorf("%s: requests go to %s, want %s", rawURL, got, want)
		}
	}
}

// roleServer starts a server that returns credentials like the services of a
// cloud.
func roleServer(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	const answer = `{"Code": "Success", "AccessKeyId": "ROLE", "SecretAccessKey": "role-secret", "Token": "role-token", "Expiration": "2999-01-01T00:00:00Z"}`
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("metadata-token")) })
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "metadata-token" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/my-role") {
			w.Write([]byte(answer))
			return
		}
		w.Write([]byte("my-role"))
	})
	mux.HandleFunc("GET /container", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(answer)) })
	mux.Handle("GET /elsewhere", http.RedirectHandler("/container", http.StatusTemporaryRedirect))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestRoles(t *testing.T) {
	server := roleServer(t)
	const want = "https://s3.amazonaws.com us-east-1 ROLE role-secret role-token"
	for name, settings := range map[string]map[string]string{
		"machine":   {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL},
		"container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL + "/container"},
	} {
		b, err := open(t.Context(), "s3://bucket", testEnv(t, settings), stallTimeout)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := b.found(t); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, settings := range map[string]map[string]string{
		"no role":       {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL + "/no"},
		"no service":    {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"},
		"no container":  {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL + "/none"},
		"redirect":      {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL + "/elsewhere"}, // the request may have a token
		"no token file": {"AWS_WEB_IDENTITY_TOKEN_FILE": "/none", "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"},
	} {
		if _, err := Open(t.Context(), "s3://bucket", testEnv(t, settings)); !errors.Is(err, remote.ErrCredentials) {
			t.Errorf("%s: error %v, want ErrCredentials", name, err)
		}
	}
}

// Calls return ErrCredentials if the credentials expired and cannot be renewed.
func TestExpired(t *testing.T) {
	server := roleServer(t)
	b, err := open(t.Context(), "s3://bucket?endpoint=http://127.0.0.1:1", testEnv(t, map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL}), stallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	b.creds.Expire()
	for op, call := range calls(t.Context(), b) {
		wantError(t, op, call(), remote.ErrCredentials, 0, "role")
	}
}

// A URL that Open accepts gives a valid prefix and endpoint.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1&profile=x&path-style=true&anonymous=false",
		"s3://id:secret@bucket", "s3://bucket/%2e%2e/x", "s3://bucket?endpoint=[::1]", "s3:bucket", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		env := remote.Env{Getenv: settings{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}.get, Now: time.Now}
		b, err := open(t.Context(), rawURL, env, stallTimeout)
		if err != nil {
			return
		}
		if strings.HasPrefix(b.prefix, "/") || b.prefix != "" && !strings.HasSuffix(b.prefix, "/") || strings.Contains(b.prefix, "//") {
			t.Errorf("%q: prefix %q", rawURL, b.prefix)
		}
		if b.endpoint.User != nil || b.endpoint.Path != "" || b.endpoint.RawQuery != "" {
			t.Errorf("%q: endpoint %q", rawURL, b.endpoint)
		}
	})
}
