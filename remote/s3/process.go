package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	processTimeout = time.Minute // a program may ask its user for a second factor
	maxProcess     = 64 << 10    // bytes of its answer

	// expiryWindow is how long before their end credentials are renewed. A request must not arrive
	// after the end.
	expiryWindow = time.Minute
)

// process provides the credentials that a program prints. It runs again when they expire, and
// if the store refuses them.
type process struct {
	credentials.Expiry
	command []string
	endless bool // the credentials do not expire
}

// processAnswer is the output of the program.
type processAnswer struct {
	Version         int
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      *time.Time
}

// IsExpired implements [credentials.Provider].
func (p *process) IsExpired() bool { return !p.endless && p.Expiry.IsExpired() }

// Retrieve implements [credentials.Provider].
func (p *process) Retrieve() (credentials.Value, error) {
	return p.RetrieveWithCredContext(&credentials.CredContext{})
}

// RetrieveWithCredContext implements [credentials.Provider]. Errors have no word of the command's
// arguments and output, which may be secret.
func (p *process) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ctx := cc.Context
	if ctx == nil {
		ctx = context.Background()
	}
	out, err := p.runProgram(ctx)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("credential_process: %w", err)
	}

	var a processAnswer
	switch err := json.Unmarshal(out, &a); {
	case err != nil:
		return credentials.Value{}, errors.New("credential_process: the output is not the JSON of credentials")
	case a.Version != 1:
		return credentials.Value{}, fmt.Errorf("credential_process: the output has version %d, not 1", a.Version)
	case a.AccessKeyID == "" || a.SecretAccessKey == "":
		return credentials.Value{}, errors.New("credential_process: the output lacks AccessKeyId or SecretAccessKey")
	case a.Expiration != nil && !a.Expiration.After(p.CurrentTime()):
		return credentials.Value{}, fmt.Errorf("credential_process: the credentials expired at %s", a.Expiration.UTC().Format(time.DateTime))
	}

	value := credentials.Value{
		AccessKeyID: a.AccessKeyID, SecretAccessKey: a.SecretAccessKey, SessionToken: a.SessionToken, SignerType: credentials.SignatureV4,
	}
	if p.endless = a.Expiration == nil; !p.endless {
		value.Expiration = *a.Expiration
		p.SetExpiration(*a.Expiration, min(expiryWindow, a.Expiration.Sub(p.CurrentTime())/2))
	}
	return value, nil
}

// runProgram returns the output of the program.
func (p *process) runProgram(ctx context.Context) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, processTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.WaitDelay = time.Second // its children may keep the pipe open

	var out bytes.Buffer
	cmd.Stdout = &limitedWriter{&out, maxProcess}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && context.Cause(ctx) == context.DeadlineExceeded:
		return nil, fmt.Errorf("no answer within %v", processTimeout)
	case errors.As(err, &exit):
		return nil, fmt.Errorf("the command ended with %v", exit.ProcessState)
	case err != nil:
		return nil, err // it did not start: the text names the program alone
	}
	return out.Bytes(), nil
}

// limitedWriter returns an error instead of more than left bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("the output is too long")
	}
	return l.w.Write(p)
}
