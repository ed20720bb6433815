package gridfs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestLocation(t *testing.T) {
	env := map[string]string{"KIST_MONGODB_USERNAME": "al/ice", "KIST_MONGODB_PASSWORD": "s3c&r t", "KIST_MONGODB_HOST": "H, h:1,cluster.example.com,[::1]"}
	for _, test := range []struct {
		url       string
		env       bool
		uri       string
		database  string
		bucket    string
		chunkSize int32
	}{
		{"mongodb://localhost/db", false, "mongodb://localhost/db", "db", "kist", 261120},
		{"mongodb://a:1,b:2,c:3/db?replicaSet=rs0&bucket=photos&tls=true", false, "mongodb://a:1,b:2,c:3/db?replicaSet=rs0&tls=true", "db", "photos", 261120},
		{"mongodb+srv://cluster.example.com/db?chunksize=1048576", false, "mongodb+srv://cluster.example.com/db", "db", "kist", 1048576},
		{"mongodb://h/db?BUCKET=b&ChunkSize=1024", false, "mongodb://h/db", "db", "b", 1024},
		{"mongodb://h/d%2Db?a=%26", false, "mongodb://h/d%2Db?a=%26", "d-b", "kist", 261120},
		{"mongodb://bob:p%40ss@h/db", true, "mongodb://bob:p%40ss@h/db", "db", "kist", 261120},
		{"mongodb://h:1/db?authSource=admin", true, "mongodb://al%2Fice:s3c%26r%20t@h:1/db?authSource=admin", "db", "kist", 261120},
		{"mongodb://al%2Fice@h/db", true, "mongodb://al%2Fice:s3c%26r%20t@h/db", "db", "kist", 261120},
		{"mongodb://bob@h/db", true, "mongodb://bob@h/db", "db", "kist", 261120},
		{"mongodb+srv://cluster.example.com/db", true, "mongodb+srv://al%2Fice:s3c%26r%20t@cluster.example.com/db", "db", "kist", 261120},
		{"mongodb://h:27017,H:1,[::1]:27017/db", true, "mongodb://al%2Fice:s3c%26r%20t@h:27017,H:1,[::1]:27017/db", "db", "kist", 261120},
		// Hosts that the environment does not name.
		{"mongodb://evil/db", true, "mongodb://evil/db", "db", "kist", 261120},
		{"mongodb://h:2/db", true, "mongodb://h:2/db", "db", "kist", 261120},
		{"mongodb://h,evil/db", true, "mongodb://h,evil/db", "db", "kist", 261120},
		{"mongodb://h,/db", true, "mongodb://h,/db", "db", "kist", 261120},
		{"mongodb://al%2Fice@evil/db", true, "mongodb://al%2Fice@evil/db", "db", "kist", 261120},
		{"mongodb://evil%2Eh/db", true, "mongodb://evil%2Eh/db", "db", "kist", 261120},
		{"mongodb://bob@h/db", false, "mongodb://bob@h/db", "db", "kist", 261120},
	} {
		getenv := func(name string) string {
			if test.env {
				return env[name]
			}
			return ""
		}
		l, err := parseLocation(test.url, getenv)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if l.uri != test.uri || l.database != test.database || l.bucket != test.bucket || l.chunkSize != test.chunkSize {
			t.Errorf("%s: location %+v, want %+v", test.url, l, test)
		}
	}
}

func TestLocationPasswordOnly(t *testing.T) {
	l, err := parseLocation("mongodb://bob@h/db", func(name string) string {
		return map[string]string{"KIST_MONGODB_PASSWORD": "x", "KIST_MONGODB_HOST": "h"}[name]
	})
	if err != nil || l.uri != "mongodb://bob:x@h/db" {
		t.Errorf("location %+v, error %v; want the user of the URL with the password of the environment", l, err)
	}
}

// Credentials of the environment or the machine are not sent to hosts that only
// the URL names. No password is sent in clear.
func TestNotSent(t *testing.T) {
	password := map[string]string{"KIST_MONGODB_USERNAME": "u", "KIST_MONGODB_PASSWORD": secret}
	named := map[string]string{"KIST_MONGODB_USERNAME": "u", "KIST_MONGODB_PASSWORD": secret, "KIST_MONGODB_HOST": "h"}
	for _, test := range []struct {
		url    string
		env    map[string]string
		kind   error // nil: it opens
		reason string
	}{
		{"mongodb://h/db", password, remote.ErrCredentials, `"h": KIST_MONGODB_HOST does not name`},
		{"mongodb://u@h/db", password, remote.ErrCredentials, "KIST_MONGODB_HOST"},
		{"mongodb://other@h/db", password, nil, ""},
		{"mongodb://h/db", named, nil, ""},
		{"mongodb://evil/db", named, nil, ""},
		{"mongodb://h/db?authMechanism=PLAIN", named, remote.ErrURL, "in clear"},
		{"mongodb://u:" + secret + "@h/db?authMechanism=plain", nil, remote.ErrURL, "in clear"},
		{"mongodb://h/db?authMechanism=PLAIN&tls=true&tlsInsecure=true", named, remote.ErrURL, "in clear"},
		{"mongodb://h/db?authMechanism=PLAIN&tls=true", named, nil, ""},
		{"mongodb://h/db?authMechanism=MONGODB-AWS", nil, remote.ErrCredentials, "of this machine"},
		{"mongodb://evil/db?authMechanism=MONGODB-AWS", map[string]string{"KIST_MONGODB_HOST": "h"}, remote.ErrCredentials, `"evil"`},
		{"mongodb://h/db?authMechanism=MONGODB-AWS", map[string]string{"KIST_MONGODB_HOST": "h"}, nil, ""},
		{"mongodb://h/db?tls=true&authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s", nil, remote.ErrCredentials, "of this machine"},
		{"mongodb://h/db?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s", map[string]string{"KIST_MONGODB_HOST": "h"}, remote.ErrURL, "in clear"},
	} {
		env := testEnv()
		env.Getenv = func(name string) string { return test.env[name] }
		b, err := Open(t.Context(), test.url, env)
		switch {
		case test.kind == nil && err != nil:
			t.Errorf("%s: %v", test.url, err)
		case test.kind != nil && (!errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.reason) || strings.Contains(err.Error(), secret)):
			t.Errorf("%s: error %v, want %v with %q", test.url, err, test.kind, test.reason)
		}
		if err == nil {
			b.Close()
		}
	}
}

func TestBadURL(t *testing.T) {
	for url, reason := range map[string]string{
		"mongodb://h":                               "names no database",
		"mongodb://h/":                              "names no database",
		"mongodb://h/?bucket=b":                     "names no database",
		"mongodb://u:" + secret + "/x@h/db":         "not the name of a database",
		"mongodb://u:" + secret + "?x@h/db":         "names no database",
		"mongodb://h/d.b":                           "not the name of a database",
		"mongodb://h/a/b":                           "not the name of a database",
		"mongodb://h/%zz":                           "not the name of a database",
		"mongodb://h/" + strings.Repeat("d", 64):    "not the name of a database",
		"mongodb://h/db?bucket=":                    "bucket",
		"mongodb://h/db?bucket=a$b":                 "bucket",
		"mongodb://h/db?bucket=system.x":            "bucket",
		"mongodb://h/db?chunksize=1023":             "chunksize",
		"mongodb://h/db?chunksize=15728641":         "chunksize",
		"mongodb://h/db?chunksize=1k":               "chunksize",
		"mongodb://h/db?chunksize=99999999999":      "chunksize",
		"mongodb://h:port/db":                       "port",
		"mongodb:///db":                             "",
		"mongodb://u:" + secret + "@h/db?tls=maybe": "tls",
		"mongodb://u:" + secret + "%zz@h/db":        "",
		"mongodb://h/db?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:" + secret + ",x": "",
		"mongodb://h/db?tlsCertificateKeyFile=/no/such/file&tlsCertificateKeyFilePassword=" + secret:          "no/such/file",
	} {
		b, err := Open(context.Background(), url, testEnv())
		var re *remote.Error
		if !errors.As(err, &re) || !errors.Is(err, remote.ErrURL) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: error %v, want ErrURL with %q", url, err, reason)
		}
		if err == nil {
			b.Close()
			continue
		}
		if b != nil {
			t.Errorf("%s: Open returned a backend and an error", url)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the secret: %v", url, err)
		}
	}
}

func FuzzLocation(f *testing.F) {
	for _, url := range []string{
		"mongodb://u:p@h:1,h2/db?bucket=b&chunksize=2048&replicaSet=rs0", "mongodb+srv://h/db", "mongodb://", "mongodb:///?", "x://u:p%zz@/%", "mongodb://h/db?&&=&bucket",
	} {
		f.Add(url, "user", "password")
	}
	f.Fuzz(func(t *testing.T, url, user, password string) {
		l, err := parseLocation(url, func(name string) string {
			return map[string]string{"KIST_MONGODB_USERNAME": user, "KIST_MONGODB_PASSWORD": password, "KIST_MONGODB_HOST": "h:1,h2"}[name]
		})
		if err != nil {
			return
		}
		if l.database == "" || l.bucket == "" || l.chunkSize < minChunkSize || l.chunkSize > maxChunkSize {
			t.Errorf("location %+v breaks a limit", l)
		}
		if strings.Contains(l.uri, escapeURL(user)+":"+escapeURL(password)+"@") && password != "" && !slices.Contains(l.secrets, password) {
			t.Errorf("the password is not among the secrets")
		}
	})
}
